"""What can be measured: the workloads, the presets (lists of cases with their sizes) and every setting. No JAX."""

import dataclasses
import itertools
from collections.abc import Sequence

from ..io import checks

WORKLOADS = {
    "gd": "a bare weight update by gradient descent, T = H",
    "one-step": "a bare weight update after a single inference step, T = 1",
    "error-space": "a bare weight update in error space",
    "resnet": "the same of a convolutional network with H latents and N channels",
    "epoch": "a step of fit by gradient descent, T = H, and an evaluation",
    "epoch-error-space": "a step of fit in error space, and an evaluation",
    "grid": "fit_many against fit, one run after another",
}
UPDATES, RESNET, EPOCHS = ("gd", "one-step", "error-space"), "resnet", ("epoch", "epoch-error-space")
IN_ERROR_SPACE = ("error-space", RESNET, "epoch-error-space")
LEAST_LATENTS = 6
"""Latents of the smallest network with three stages: a stem, two changes of stage, and a block in each."""
PRECISIONS = ("float32", "tf32", "bf16", "float64")
IN_SIZE, OUT_SIZE, BATCH_SIZE = 784, 10, 64
"""MNIST's sizes, and the paper's batch."""
PAPER_ETAS = (0.5, 0.1, 0.05, 0.01)
PAPER_BETAS = (1000.0, 500.0, 100.0, 50.0, 10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01)


@dataclasses.dataclass(frozen=True)
class BenchCase:
    """One workload of one size. `steps` is T of gradient descent; None means T = H, or that the workload has no T."""

    workload: str
    hidden_layers: int
    width: int
    steps: int | None = None
    batch_size: int = BATCH_SIZE

    @property
    def inference_steps(self) -> int | None:
        """T, or None for a workload without a number of inference steps."""
        if self.workload in IN_ERROR_SPACE:
            return None
        return self.hidden_layers if self.steps is None else self.steps

    @property
    def label(self) -> str:
        """The case in a few words, such as `gd H=8 N=128 T=8 B=64`."""
        steps = "" if self.inference_steps is None else f" T={self.inference_steps}"
        return f"{self.workload} H={self.hidden_layers} N={self.width}{steps} B={self.batch_size}"


def _cases(
    workloads: str,
    depths: Sequence[int],
    widths: Sequence[int],
    batches: Sequence[int] = (BATCH_SIZE,),
    steps: Sequence[int | None] = (None,),
) -> list[BenchCase]:
    """Return every combination, for workloads separated by spaces."""
    return [
        BenchCase(workload, depth, width, 1 if workload == "one-step" else count, batch)
        for workload in workloads.split()
        for width, depth, batch, count in itertools.product(widths, depths, batches, steps)
    ]


PRESETS: dict[str, list[BenchCase]] = {
    "small": [
        *_cases("gd", (4, 8, 16), (128,)),
        *_cases("one-step error-space", (16,), (128,)),
        *_cases("epoch epoch-error-space", (4,), (64,)),
        *_cases("grid", (4,), (32,)),
    ],
    "cpu": [
        *_cases("gd", (8, 16, 32), (512,)),
        *_cases("gd", (32,), (128, 256, 1024)),
        *_cases("gd", (32,), (256,), batches=(16, 256)),
        *_cases("gd", (32,), (256,), steps=(1, 8, 128)),
        *_cases("error-space", (32,), (512,)),
        *_cases("epoch epoch-error-space", (8,), (128,)),
        *_cases("grid", (8,), (32,)),
    ],
    "growth": [
        *_cases("gd error-space", (8, 16, 32, 64), (128,)),
        *_cases("gd error-space", (8,), (64, 256, 512)),
        *_cases("gd error-space", (8,), (128,), batches=(16, 256, 1024)),
        *_cases("gd", (16,), (128,), steps=(4, 64, 256)),
        *_cases("resnet", (6, 12, 21, 42), (8,), batches=(16,)),
        *_cases("resnet", (6,), (4, 16, 32), batches=(16,)),
        *_cases("resnet", (6,), (8,), batches=(4, 64, 256)),
    ],
    "gpu": [
        *_cases("gd", (128, 8, 32, 512, 1024), (512,)),
        *_cases("gd", (128,), (128, 1024)),
        *_cases("gd", (128,), (512,), batches=(16, 256)),
        *_cases("gd", (128,), (512,), steps=(8, 32, 512)),
        *_cases("one-step epoch epoch-error-space", (8, 128), (512,)),
        *_cases("error-space", (128, 8, 32, 512, 1024), (512,)),
        *_cases("error-space", (128,), (128, 1024)),
        *_cases("error-space", (128,), (512,), batches=(16, 256)),
        *_cases("resnet", (21, 42, 129), (64,), batches=(128,)),
        *_cases("resnet", (21,), (32, 128), batches=(128,)),
        *_cases("resnet", (21,), (64,), batches=(32, 512)),
        *_cases("grid", (8,), (512,)),
    ],
}
"""`small` takes about a minute on two CPU cores, `cpu` about ten; `growth` varies one size after the other, to fit how
cost grows; `gpu` needs an accelerator."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchConfig:
    """What to measure, and how. `None` leaves a setting to the preset, or to the workload."""

    workloads: tuple[str, ...] = ()
    """What to measure, one or more workloads; none means those of the preset."""
    preset: str = "small"
    """List of cases: small (a minute on a CPU), cpu (ten), growth (five; every size varies), or gpu."""
    depths: tuple[int, ...] | None = None
    """Numbers of hidden layers H, in place of the preset's."""
    widths: tuple[int, ...] | None = None
    """Widths N, in place of the preset's."""
    steps: tuple[int, ...] | None = None
    """Inference steps T of gd, epoch and grid."""
    batch_size: tuple[int, ...] | None = None
    """Samples per update, one or more numbers."""
    precision: str | None = None
    """Number format of matrix products."""
    activation: str = "relu"
    """Nonlinearity."""
    cg_steps: int | None = None
    """Conjugate-gradient steps of error-space, in every update; by default what training does."""
    repeats: int = 7
    """How often to take each time; medians are reported."""
    unrolled: bool = True
    """Measure the step-by-step baseline too, unless it would take too long."""
    quick: bool = False
    """Take a rough look: three repeats, and a tenth of the samples."""
    data: str | None = None
    """Data set of epoch and grid."""
    data_dir: str | None = None
    """Folder with the files of the data set."""
    samples: int | None = None
    """Random training samples of epoch and grid."""
    etas: tuple[float, ...] = (0.1, 0.05, 0.01)
    """Learning rates of the weights in grid."""
    betas: tuple[float, ...] = (50.0, 5.0, 0.5)
    """Learning rates of the activities in grid, as the paper counts them: 64 times the solver's."""
    paper: bool = False
    """Use the paper's 44 pairs of learning rates in grid."""
    seeds: int = 2
    """Runs for each pair of learning rates in grid."""
    epochs: float = 1.0
    """Length of training in epoch and grid."""
    chunk: int | None = None
    """How many runs of grid to train at once."""
    sequential: int | None = None
    """How many runs of grid to time one after another; the time of the others is extrapolated."""

    @property
    def rounds(self) -> int:
        """How often to take each time."""
        return min(3, self.repeats) if self.quick else self.repeats

    def scaled(self, samples: int) -> int:
        """Return this number of samples, or a tenth of it for a rough look."""
        return max(1, samples // 10) if self.quick else samples

    @property
    def rates(self) -> list[tuple[float, float]]:
        """The pairs of η and β of grid: the paper's or those given."""
        etas, betas = (PAPER_ETAS, PAPER_BETAS) if self.paper else (self.etas, self.betas)
        return list(itertools.product(etas, betas))


_COUNTS = ("depths", "widths", "steps", "batch_size", "cg_steps", "repeats", "seeds", "samples", "chunk", "sequential")


def _check(config: BenchConfig) -> None:
    for name in config.workloads:
        checks.lookup("the workload", name, WORKLOADS)
    checks.lookup("preset", config.preset, PRESETS)
    if config.precision is not None:
        checks.lookup("precision", config.precision, dict.fromkeys(PRECISIONS))
    for name in (*_COUNTS, "etas", "betas", "epochs"):
        given = getattr(config, name)
        if given == ():
            raise checks.ArgumentError(name, "has no values.", "Give one or more numbers.")
        for value in given if isinstance(given, tuple) else () if given is None else (given,):
            if name in _COUNTS:
                checks.integer(name, value, 1)
            else:
                checks.number(name, value, above=0)


def bench_cases(config: BenchConfig) -> list[BenchCase]:
    """Check a configuration and return its cases: those of the preset, with the sizes given in place of its own.

    **Arguments:** `mupc.bench.BenchConfig`.

    **Example:**

    ```python
    from mupc import bench

    config = bench.BenchConfig(workloads=("gd", "one-step"), depths=(8, 16, 32), widths=(64,))
    len(bench.bench_cases(config))      # 6
    ```
    """
    _check(config)
    preset = PRESETS[config.preset]
    found: list[BenchCase] = []
    for name in config.workloads or dict.fromkeys(case.workload for case in preset):
        for case in [case for case in preset if case.workload == name] or _cases(name, (32,), (128,)):
            depths, widths = config.depths or (case.hidden_layers,), config.widths or (case.width,)
            steps = (config.steps if name in ("gd", "epoch", "grid") else None) or (case.steps,)
            found += _cases(name, depths, widths, config.batch_size or (case.batch_size,), steps)
    least = min((case.hidden_layers for case in found if case.workload == RESNET), default=LEAST_LATENTS)
    if least < LEAST_LATENTS:
        wrong = f"has {least}, too few for the three stages of {RESNET}."
        raise checks.ArgumentError("depths", wrong, f"Use {LEAST_LATENTS} or more.")
    return list(dict.fromkeys(found))  # cases of a preset may be the same once a size is given: measure them once

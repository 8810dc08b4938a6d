"""What can be measured: workloads by name, and presets, which are lists of workloads with their sizes. No JAX."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

from ..io import checks

WORKLOADS = {
    "gd": "one weight update by gradient descent, T = H",
    "one-step": "one weight update after a single inference step, T = 1",
    "error-space": "one weight update in error space",
    "evaluation": "the forward pass on test samples, in chunks as fit takes them",
    "epoch": "training on data on the device: a step, and an evaluation",
    "grid": "fit_many against fit, one run after another",
    "compile": "compile time of gd, error-space and backpropagation",
}
UPDATES = ("gd", "one-step", "error-space")
PRECISIONS = ("float32", "tf32", "bf16", "float64")
BATCH_SIZE = 64
ETAS, BETAS = (0.1, 0.05, 0.01), (50.0, 5.0, 0.5)
PAPER_ETAS = (0.5, 0.1, 0.05, 0.01)
PAPER_BETAS = (1000.0, 500.0, 100.0, 50.0, 10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01)


@dataclasses.dataclass(frozen=True)
class Case:
    """One workload of one size. `steps` is T of gradient descent, None for T = H; None too where there is no T."""

    workload: str
    hidden_layers: int
    width: int
    steps: int | None = None
    batch_size: int = BATCH_SIZE

    @property
    def inference_steps(self) -> int | None:
        """T, where inference has a number of steps."""
        if self.workload in ("error-space", "evaluation", "compile"):
            return None
        return self.hidden_layers if self.steps is None else self.steps

    @property
    def label(self) -> str:
        """The case in a line."""
        steps = "" if self.inference_steps is None else f" T={self.inference_steps}"
        batch = "" if self.workload == "evaluation" else f" B={self.batch_size}"
        return f"{self.workload} H={self.hidden_layers} N={self.width}{steps}{batch}"


def _cross(workload: str, depths: Sequence[int], widths: Sequence[int]) -> list[Case]:
    steps = 1 if workload == "one-step" else None
    return [Case(workload, depth, width, steps) for width in widths for depth in depths]


DEPTHS, WIDTHS = (8, 32, 128, 512), (128, 512, 1024)
PRESETS: dict[str, list[Case]] = {
    "small": [
        *_cross("gd", (4, 8, 16), (128,)),
        *_cross("one-step", (16,), (128,)),
        *_cross("error-space", (16,), (128,)),
        *_cross("evaluation", (16,), (128,)),
        *_cross("epoch", (4,), (64,)),
        *_cross("grid", (4,), (32,)),
        *_cross("compile", (8, 512), (64,)),
    ],
    "cpu": [
        *_cross("gd", (8, 16, 32), (512,)),
        *_cross("gd", (32,), (128, 256, 1024)),
        *(Case("gd", 32, 256, None, batch) for batch in (16, 256)),
        *(Case("gd", 32, 256, steps) for steps in (1, 8, 128)),
        *_cross("error-space", (32,), (512,)),
        *_cross("evaluation", (32,), (512,)),
        *_cross("epoch", (8,), (128,)),
        *_cross("grid", (8,), (32,)),
        *_cross("compile", (8, 512), (64,)),
    ],
    "gpu": [
        *_cross("gd", (128, 8, 32, 512, 1024), (512,)),
        *_cross("gd", (128,), (128, 1024)),
        *(Case("gd", 128, 512, None, batch) for batch in (16, 256)),
        *(Case("gd", 128, 512, steps) for steps in (8, 32, 512)),
        *_cross("one-step", (8, 128), (512,)),
        *_cross("error-space", (128, 8, 32, 512), (512,)),
        *_cross("evaluation", (8, 128), (512,)),
        *_cross("epoch", (8, 128), (512,)),
        *_cross("grid", (8,), (512,)),
        *_cross("compile", (8, 512), (512,)),
    ],
    "full": [
        *(case for workload in (*UPDATES, "evaluation") for case in _cross(workload, DEPTHS, WIDTHS)),
        *_cross("epoch", DEPTHS, (512,)),
        *_cross("grid", (8,), (512,)),
        *_cross("compile", (8, 512), (512,)),
    ],
}  # fmt: skip
"""`small` takes about a minute on two CPU cores, `cpu` about ten; `gpu` and `full` want an accelerator."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure, and how. `None` leaves it to the preset, or to the workload."""

    workloads: tuple[str, ...] = ()
    """Workloads; without any, those of the preset."""
    preset: str = "small"
    """List of cases: small (a minute on a CPU), cpu, gpu or full."""
    depths: tuple[int, ...] | None = None
    """Numbers of hidden layers H, in place of the preset's."""
    widths: tuple[int, ...] | None = None
    """Widths N, in place of the preset's."""
    steps: tuple[int, ...] | None = None
    """Inference steps T of gd, epoch and grid; by default as many as hidden layers."""
    batch_size: tuple[int, ...] | None = None
    """Samples per update, one or more numbers; by default 64."""
    precision: str | None = None
    """Number format of matrix products; by default bf16 on a GPU, otherwise float32."""
    activation: str = "relu"
    """Nonlinearity."""
    cg_steps: int = 3
    """Conjugate-gradient steps of error-space."""
    repeats: int = 7
    """How often each time is taken; medians are reported."""
    unrolled: bool = True
    """Measure the step-by-step baseline too, where it would not take too long."""
    quick: bool = False
    """A rough look: three repeats, and a tenth of the samples."""
    data: str | None = None
    """Data set of epoch and grid; by default random numbers of MNIST's shape."""
    data_dir: str | None = None
    """Folder with the files of the data set."""
    samples: int | None = None
    """Random training samples; by default 60,000 for epoch, 6,400 for grid."""
    etas: tuple[float, ...] = ETAS
    """Learning rates of the weights in grid."""
    betas: tuple[float, ...] = BETAS
    """Learning rates of the activities in grid, as the paper counts them: 64 times the solver's."""
    paper: bool = False
    """The paper's 44 pairs of learning rates in grid."""
    seeds: int = 2
    """Runs for each pair of learning rates in grid."""
    epochs: float = 1.0
    """Length of training in epoch and grid."""
    chunk: int | None = None
    """How many runs of grid to train side by side; by default as many as there is memory for."""
    sequential: int | None = None
    """In grid, time only so many runs one after another, and extrapolate."""

    @property
    def rounds(self) -> int:
        """How often to measure."""
        return min(3, self.repeats) if self.quick else self.repeats

    def scaled(self, samples: int) -> int:
        """So many samples, or a tenth of them for a quick look."""
        return max(1, samples // 10) if self.quick else samples

    @property
    def grid(self) -> dict[str, tuple[float, ...]]:
        """The learning rates of a grid, `etas` and `betas`: those given, or the paper's."""
        etas, betas = (PAPER_ETAS, PAPER_BETAS) if self.paper else (self.etas, self.betas)
        return {"etas": etas, "betas": betas}

    @property
    def rates(self) -> list[tuple[float, float]]:
        """The pairs of η and β of a grid."""
        return list(itertools.product(self.grid["etas"], self.grid["betas"]))


def validate(options: Options) -> None:
    """Raises for what cannot be measured, in words of the flags."""
    for name in options.workloads:
        checks.lookup("workload", name, WORKLOADS)
    checks.lookup("--preset", options.preset, PRESETS)
    if options.precision is not None:
        checks.lookup("--precision", options.precision, dict.fromkeys(PRECISIONS))
    for name in ("depths", "widths", "steps", "batch_size", "etas", "betas"):
        values = getattr(options, name)
        if values is not None and not values:
            raise ValueError(f"{_flag(name)} has no values: give one or more numbers.")
        for value in values or ():
            if name in ("etas", "betas"):
                checks.number(_flag(name), value, above=0)
            else:
                checks.integer(_flag(name), value, 1)
    for name in ("cg_steps", "repeats", "seeds", "samples", "chunk", "sequential"):
        if getattr(options, name) is not None:
            checks.integer(_flag(name), getattr(options, name), 1)
    checks.number("--epochs", options.epochs, above=0)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def expand(options: Options) -> list[Case]:
    """The cases that the options ask for, after a check: those of the preset, with the sizes given in place of its own.

    **Arguments:** `mupc.bench.Options`.

    **Example:**

    ```python
    from mupc import bench

    len(bench.expand(bench.Options(workloads=("gd", "one-step"), depths=(8, 16, 32), widths=(64,))))     # 6
    ```
    """
    validate(options)
    preset = [case for case in PRESETS[options.preset] if not options.workloads or case.workload in options.workloads]
    found: list[Case] = []
    for name in options.workloads or dict.fromkeys(case.workload for case in preset):
        own = [case for case in preset if case.workload == name] or _cross(name, (32,), (128,))
        for case in own:
            # a size that is given replaces the preset's, and cases that then are the same are measured once
            depths = options.depths or (case.hidden_layers,)
            widths = options.widths or (case.width,)
            batches = options.batch_size or (case.batch_size,)
            steps = (options.steps if name in ("gd", "epoch", "grid") else None) or (case.steps,)
            for width, depth, batch, count in itertools.product(widths, depths, batches, steps):
                found.append(Case(name, depth, width, count, batch))
    return list(dict.fromkeys(found))


def finite(value: float) -> float | None:
    """A number as JSON has it."""
    return value if math.isfinite(value) else None

"""`fit`: train a network, and evaluate it as it goes."""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

from jax.sharding import Mesh

from ..data import BatchStream, Dataset, targets_warning
from ..inference import AbstractSolver
from ..io import Interruption, check_same_run, checks
from ..learning import AbstractAlgorithm
from ..network import DATA, LAYERS, AbstractNetwork
from ._checkpoint_policy import CheckpointPolicy
from ._checkpoints import Checkpoints, describe_run
from ._config import Arrays, TrainConfig, as_algorithm, as_dataset
from ._devices import checked_mesh
from ._evaluation import Callbacks, Evaluation, Metrics, check_hooks
from ._loop import TrainLoop
from ._memory import check_room
from ._result import FitResult
from ._rounding import first_rounding_warning
from ._step import DevicePrograms


def fit(
    network: AbstractNetwork,
    dataset: Dataset | BatchStream | Arrays,
    algorithm: AbstractAlgorithm | AbstractSolver | None = None,
    *,
    config: TrainConfig | None = None,
    metrics: Metrics | None = None,
    callbacks: Callbacks = (),
    stop: Callable[[], bool] | None = None,
    verbose: bool = False,
    mesh: Mesh | None = None,
    **settings: Any,
) -> FitResult:
    """Train a network, and evaluate it as it goes.

    The data lives on the device, and an epoch, or all steps to the next evaluation, are one dispatch. Batches are drawn
    again every epoch; by default an incomplete last batch is left out. Evaluation is by the forward pass, on the whole
    test (and validation) split. If the loss or a weight is no longer finite, training ends there and returns the last
    finite network.

    With a folder for `checkpoints`, the same call goes on where the last one was interrupted, and on a CPU it ends with
    the same weights to the bit. More `epochs` train a finished run further. By default rates fall to zero over the run;
    with more epochs they fall over all of them, so they go on higher than they ended.

    **Arguments:**

    - `network`: where to start from.
    - `dataset`: from `mupc.data.load` or `mupc.data.from_arrays`; or a pair `(x, y)`, a fifth of which is then held out
      for testing; or a stream of batches from `mupc.data.from_batches`. If its next batch cannot be had, a
      `ValueError` says why. What was learnt until then is in its `results`, and in the last checkpoint.
    - `algorithm`: `mupc.PC(solver)`, or just the solver, or `mupc.BP()` for the backpropagation baseline on the same
      network. By default `mupc.PC(mupc.ErrorSpace())`.
    - The settings of `mupc.TrainConfig` as keywords, such as `epochs=5, weight_lr=0.05, seed=1`, or all of them as one
      `config`.
    - `metrics`: more to measure at each evaluation, `{"name": function_of_the_network}`.
    - `callbacks`: called with a `mupc.TrainStatus` after each evaluation: its `record`, `history` and `network`. One
      that returns True ends the run.
    - `stop`: asked after each evaluation, checkpoint and dispatch; training ends there, with a checkpoint, once it
      returns True.
      Without it, Ctrl-C does the same: the result has what was learnt so far. A second Ctrl-C ends it at once.
    - `verbose`: show progress on the standard error stream: a bar on a terminal, a line per evaluation elsewhere.
    - `mesh`: devices to divide the work over, such as `jax.make_mesh((8,), ("data",))`. The axis `data` divides batches
      and `layers` the hidden layers, or every `mupc.Stack` of a chain. The run is the same on any number of devices, to
      rounding (`docs/scaling.md`).

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=64, hidden_layers=16, key=jr.key(0))
    result = mupc.fit(network, digits, mupc.GradientDescent(lr=0.5, steps=16), epochs=2, weight_lr=0.05)
    result.last["test_accuracy"]
    ```
    """
    config = TrainConfig.of(config, settings)
    dataset, algorithm = as_dataset(dataset, config.seed, network), as_algorithm(algorithm)
    config = config.suited_to(dataset)
    job, plan = config.job(network, dataset, algorithm), config.plan(dataset)
    mesh = checked_mesh(mesh, (DATA, LAYERS), job, network)
    check_room(config, network, dataset, algorithm, mesh=mesh)
    check_hooks(metrics, callbacks, stop)
    checks.boolean("verbose", verbose)
    if not config.unsupervised and (warning := targets_warning(dataset.schema, dataset.train.targets)):
        warnings.warn(warning, RuntimeWarning, stacklevel=2)
    if warning := first_rounding_warning(job, network, plan.batches):
        warnings.warn(warning, RuntimeWarning, stacklevel=2)
    path, progress = config.compute_path(network, algorithm, mesh), None
    about = describe_run(job, network, dataset.schema, plan.batches.content) if config.checkpoints or mesh else {}
    if mesh is not None:
        lengths = {"the number of steps": str(plan.total), "evaluate_every": str(plan.interval)}
        check_same_run(about | lengths | {"mesh": str(dict(mesh.shape)), "checkpoints": str(config.checkpoints)})
    programs = DevicePrograms().on(mesh)
    job = programs.place_job(job)
    evaluate = Evaluation(programs, job, dataset, metrics)
    with contextlib.ExitStack() as stack:
        policy = CheckpointPolicy(every=config.checkpoint_every, keeps_best=config.keeps_best)
        if config.checkpoints is not None:
            policy.checkpoints = stack.enter_context(Checkpoints(config.checkpoints, about, config.keep))
        if stop is None:
            stop = stack.enter_context(Interruption.of_script("mupc.fit"))
        if verbose:
            from .progress import TrainProgress  # needs rich

            progress = stack.enter_context(TrainProgress())
            progress.say(path)
            progress.say(config.describe_rates(network))
            callbacks = [*callbacks, progress]
        loop = TrainLoop(job, plan, evaluate, callbacks, policy, config, stop)
        (result,) = loop.run(programs.start(job, programs.place(network)), path)
    if result.diverged:
        warnings.warn(result.message, RuntimeWarning, stacklevel=2)
    elif progress is not None:
        progress.say(result.message)
    return result

"""The loop of training, for one run or for many at once."""

import math
import time
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..io import any_process, keep_freed_memory
from ..learning import AbstractRelaxingAlgorithm, AlgorithmState, Relaxation
from ._batches import bucket
from ._checkpoint_policy import CheckpointPolicy
from ._config import StepPlan, TrainConfig
from ._evaluation import Callbacks, Evaluation, TrainStatus
from ._result import FitResult, describe_end
from ._state import BACK_TO, TrainState, evaluations_since_best, halvings, has_diverged
from ._step import Trace, TrainJob
from ._stream import StreamError

HALVINGS = 5
"""How often a learning rate is halved before a run is given up."""


class TrainLoop:
    """The training loop: train until the plan is done, every run has diverged, or a callback or `stop` ends it. A run
    that diverges is left out from then on.

    **Arguments:** the `job` and its `plan`, what evaluates (`evaluate`, with the device's programs), `callbacks`, the
    `policy` for checkpoints, the `config`, and `stop`.
    """

    def __init__(
        self,
        job: TrainJob,
        plan: StepPlan,
        evaluate: Evaluation,
        callbacks: Callbacks,
        policy: CheckpointPolicy,
        config: TrainConfig,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self.job, self.plan, self.evaluate, self.callbacks = job, plan, evaluate, callbacks
        self.policy, self.config, self.stop = policy, config, stop
        self.programs = evaluate.programs
        self.ended = False  # by a callback, by `stop`, or by a problem with the next batch
        self.problem: StreamError | None = None
        self.begin = time.perf_counter()

    def run(self, learner: AlgorithmState, compute_path: str) -> list[FitResult]:
        """Train from this state, or from the newest checkpoint, and return the result of each run."""
        keep_freed_memory()
        plan, runs = self.plan, self.programs.runs
        dtype = self.job.context.policy.dtype
        steps = jnp.zeros((*runs, 1 if plan.interval == 1 else bucket(plan.interval)), dtype)
        network = self.programs.pick(learner.network, 0)
        blank = self.programs.place(Trace(steps, steps, jnp.zeros((*runs, network.layer_count), dtype)))
        start = TrainState.start(learner, runs)
        state = self.policy.resume(learner, blank, self.programs)
        if state is None:
            state = self._look(start)
        else:
            self.begin -= max(history[-1]["seconds"] for history in state.histories)
        while state.position.step < plan.total and not state.all_diverged and not self._stops(state):
            state = self._advance(state, blank)
        state = self._save_where_it_stopped(state)
        losses = state.all_losses(blank)
        picked = [self.programs.pick(losses, index) for index in range(len(state.histories))]
        results = [self._result(state, index, own, compute_path) for index, own in enumerate(picked)]
        if self.problem is not None:
            self.problem.results = results
            raise self.problem
        return results

    def _advance(self, state: TrainState, blank: Trace) -> TrainState:
        """Return the state at the next evaluation or checkpoint."""
        position = state.position
        evaluation = self.plan.next_evaluation(position.step)
        end = min(evaluation, self.policy.next_step(position.step))
        job = _slowed(self.job, halvings(state.histories[0]))
        started = time.perf_counter()
        learner, trace, taken, self.problem = self.programs.run_interval(
            job, position.state, range(position.step, end), self.plan.batches, blank, self._is_told_to_stop
        )
        reached = position.step + taken
        state = state._replace(position=position.after(learner, trace, reached, time.perf_counter() - started))
        if reached < end:
            self.ended = True
            return state
        back = False
        if end == evaluation:
            state = self._look(state)
            back = state.goes_back
            state = state.evaluated(self.programs)
        if not state.all_diverged:
            self.policy.save(state, now=back, last=state.position.step == self.plan.total)
        return state

    def _look(self, state: TrainState) -> TrainState:
        """Evaluate, and add a record to the history of every run that goes on."""
        position = state.position
        trace = position.trace
        taken = 0 if trace is None else trace.losses.shape[-1]
        for index, found in enumerate(self.evaluate(position)):
            history = state.histories[index]
            if has_diverged(history):
                continue
            record = {
                "step": position.step,
                "epoch": position.step / self.plan.per_epoch,
                **found,
                "steps_per_second": len(state.histories) * taken / position.seconds if taken else None,
                "seconds": time.perf_counter() - self.begin,
                "total_steps": self.plan.total,
            }
            if taken and found["diverged"] and self.config.halves_rate and halvings(history) < HALVINGS:
                rate = float(_slowed(self.job, 1 + halvings(history)).context.weight_lr)
                record |= {BACK_TO: state.last_finite.step, "weight_lr": rate}
            history.append(record)
            self._call_back(state, index)
        return state.with_best() if self.config.keeps_best else state

    def _call_back(self, state: TrainState, index: int) -> None:
        if not self.callbacks:
            return
        history = state.histories[index]
        learner = state.position.state
        network, memory = self.programs.pick((learner.network, learner.memory), index)
        status = TrainStatus(history[-1], history, network, index, memory)
        for callback in self.callbacks:
            self.ended |= callback(status) is True

    def _stops(self, state: TrainState) -> bool:
        return self._out_of_patience(state) or self.ended or self._is_told_to_stop()

    def _is_told_to_stop(self) -> bool:
        return any_process(self.stop is not None and self.stop())

    def _out_of_patience(self, state: TrainState) -> bool:
        patience = self.config.patience
        return patience is not None and evaluations_since_best(state.histories[0]) >= patience

    def _save_where_it_stopped(self, state: TrainState) -> TrainState:
        if state.position.step == self.plan.total or state.all_diverged:
            return state
        if not state.position.finite:
            state = state._replace(position=state.last_finite)
        self.policy.save(state, now=True)
        return state

    def _result(self, state: TrainState, index: int, losses: np.ndarray, compute_path: str) -> FitResult:
        history = state.histories[index]
        if has_diverged(history):
            losses = losses[: history[-1]["step"]]
        rates = [record["steps_per_second"] for record in history[2:] or history[1:]]
        ended = state.position.step == self.plan.total or has_diverged(history) or self._out_of_patience(state)
        return FitResult(
            network=state.network(self.programs, index),
            history=history,
            losses=losses,
            steps=len(losses),
            seconds_per_step=1 / float(np.median(rates)) if rates else math.nan,
            diverged=bool(history[-1]["diverged"]),
            stopped=not ended,
            message=describe_end(
                history, state.position.step, self.plan.total, self.config.patience, state.best is not None
            ),
            restored=state.best is not None,
            precision=self.job.context.precision,
            compute_path=compute_path,
            schema=None if self.job.source.format.unsupervised else self.evaluate.schema,
            loss=self.job.context.energy.output_function,
            data=self.evaluate.data,
            relaxation=self._relaxation(index),
            memory=state.memory(self.programs, index),
        )

    def _relaxation(self, index: int) -> Relaxation | None:
        """Return how the network of a run predicts, with plain numbers; None: by the forward pass."""
        algorithm = self.job.algorithm
        if not isinstance(algorithm, AbstractRelaxingAlgorithm):
            return None
        own = algorithm.relaxation
        rate = self.programs.pick(jnp.asarray(own.lr), index) if np.ndim(own.lr) else own.lr
        return Relaxation(float(rate), own.steps)


def _slowed(job: TrainJob, times: int) -> TrainJob:
    """Return the job with its learning rate halved this many times."""
    return eqx.tree_at(lambda j: j.context.weight_lr, job, job.context.weight_lr / 2**times) if times else job

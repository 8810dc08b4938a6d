"""One weight update, ours beside backpropagation and the step-by-step baseline; and the forward pass by itself."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array

from ..inference import AbstractSolver, ErrorSpace, GradientDescent, infer
from ..learning import backprop_gradients, weight_gradients
from ..network import POLICIES, Network, forward
from ..training import EVALUATION_CHUNK
from . import _floor, _unrolled
from ._cases import Case, Options
from ._ceilings import ceilings, measure_beside, rough
from ._floor import FORMATS, Shape, Work
from ._timing import COSTS, Program, compiled

Row = dict[str, Any]
Update = Callable[[Network, Array, Array], Network]

IN_SIZE, OUT_SIZE, TEST_SAMPLES = 784, 10, 10_000
LR = 0.5 / 64
"""The paper's β = 0.5, as it acts on one sample."""
UNROLLED_DEPTH, UNROLLED_SECONDS = 128, 5.0
"""The baseline is left out beyond this many layers, which it takes long to compile, or if its products alone would take
so many seconds an update."""


def shape(case: Case) -> Shape:
    return Shape(case.hidden_layers, case.width, case.batch_size, IN_SIZE, OUT_SIZE)


def network(case: Case, options: Options) -> Network:
    """The network of a case, at initialisation."""
    return Network(
        IN_SIZE, OUT_SIZE, case.width, case.hidden_layers, activation=options.activation, key=jr.key(0)
    )  # fmt: skip


def batch(case: Case) -> tuple[Array, Array]:
    """Random inputs and one-hot targets."""
    labels = jr.randint(jr.key(2), (case.batch_size,), 0, OUT_SIZE)
    return jr.normal(jr.key(1), (case.batch_size, IN_SIZE)), jax.nn.one_hot(labels, OUT_SIZE)


def solver(case: Case, options: Options) -> AbstractSolver:
    """How a case infers."""
    if case.inference_steps is None:
        return ErrorSpace(cg_steps=options.cg_steps)
    return GradientDescent(lr=LR, steps=case.inference_steps)


def updates(case: Case, options: Options, precision: str) -> dict[str, Update]:
    """A weight update as predictive coding and as backpropagation make it."""

    def pc(network: Network, x: Array, y: Array) -> Network:
        solution = infer(network, x, y, solver(case, options), precision=precision)
        return weight_gradients(network, solution, x)

    return {"mupc": pc, "backprop": lambda n, x, y: backprop_gradients(n, x, y, precision=precision)}


def programs(case: Case, options: Options, precision: str, matmul: float) -> tuple[dict[str, Program], list[str]]:
    """Everything that is timed for an update, compiled; and why the baseline is missing, where it is."""
    weights, (x, y) = network(case, options), batch(case)
    found = {name: compiled(update, weights, x, y) for name, update in updates(case, options, precision).items()}
    reason = _too_much(case, options, matmul)
    if reason is None and case.inference_steps is not None:
        found["unrolled"] = _unrolled.program(weights, x, y, LR, case.inference_steps)
    return found, [] if reason is None else [reason]


def _too_much(case: Case, options: Options, matmul: float) -> str | None:
    if not options.unrolled:
        return "no step-by-step baseline was asked for"
    if case.inference_steps is None:
        return "the step-by-step baseline descends on activities, and knows no error space"
    if case.hidden_layers > UNROLLED_DEPTH:
        return f"the step-by-step baseline is left out beyond {UNROLLED_DEPTH} layers, which take long to compile"
    products = 2 * case.inference_steps * case.hidden_layers * 2 * case.batch_size * case.width**2
    if products / matmul > UNROLLED_SECONDS:
        return f"the step-by-step baseline is left out: it would take more than {UNROLLED_SECONDS:g} s an update"
    return None


def measure_update(case: Case, options: Options, precision: str) -> Row:
    """Times of an update in turns, with the floor and the ceilings that it is held against."""
    beside = ceilings(precision, shape(case))
    found, notes = programs(case, options, precision, rough(beside["matmul_flops_per_s"]))
    times, rates = measure_beside(found, beside, options.rounds)
    format = FORMATS[precision]
    if case.inference_steps is None:
        work = _floor.error_space(shape(case), options.cg_steps, format)
    else:
        work = _floor.gradient_descent(shape(case), case.inference_steps, format)
    floor = _floors(work, rates) | {
        "backprop_s": _seconds(_floor.backprop(shape(case), format), rates),
        "backprop_flops": _floor.backprop(shape(case), format).flops,
    }
    return {"times": times, "ceilings": rates, "floor": floor, **compared(times, floor, rates), "notes": notes}


def measure_evaluation(case: Case, options: Options, precision: str) -> Row:
    """The forward pass on 10,000 samples in chunks, in full precision, as `fit` evaluates."""
    full = POLICIES[precision].full.name
    count = options.scaled(TEST_SAMPLES)
    size = min(EVALUATION_CHUNK, count)
    chunks = jr.normal(jr.key(1), (-(-count // size), size, IN_SIZE))

    def predict(network: Network, chunks: Array) -> Array:
        return jax.lax.map(lambda x: jnp.argmax(forward(network, x, precision=full)[1], axis=-1), chunks)

    ours = {"mupc": compiled(predict, network(case, options), chunks)}
    times, rates = measure_beside(ours, ceilings(full), options.rounds)
    work = _floor.evaluation(shape(case)._replace(batch=size), count, FORMATS[full])
    floor = _floors(work, rates)
    found = compared(times, floor, rates)
    return {"samples": count, "times": times, "ceilings": rates, "floor": floor, **found, "notes": []}


def _seconds(work: Work, rates: dict[str, float], once: bool = False) -> float:
    return work.seconds(rates["matmul_flops_per_s"], rates["copy_bytes_per_s"], once)


def _floors(work: Work, rates: dict[str, float]) -> dict[str, Any]:
    return {
        "flops": work.flops,
        "bytes_twice": work.twice,
        "bytes_once": work.once,
        "twice_s": _seconds(work, rates),
        "once_s": _seconds(work, rates, once=True),
        "limit": work.limit(rates["matmul_flops_per_s"], rates["copy_bytes_per_s"]),
    }


def compared(times: Row, floor: Row, rates: dict[str, float]) -> dict[str, dict[str, float]]:
    """Ratios of times within this run, and how close the update comes to what the device can do."""
    ours = times["mupc"]["median_s"]
    ratios = {f"{name} / mupc": taken["median_s"] / ours for name, taken in times.items() if name == "unrolled"}
    ratios |= {f"mupc / {name}": ours / taken["median_s"] for name, taken in times.items() if name == "backprop"}
    own = floor["flops"] / ours
    shares = {
        "floor": floor["twice_s"] / ours,
        "floor_once": floor["once_s"] / ours,
        "matmul": own / rates["matmul_flops_per_s"],
    }
    if "batched_matmul_flops_per_s" in rates:
        shares["batched_matmul"] = own / rates["batched_matmul_flops_per_s"]
    if "backprop" in times:
        shares["backprop_floor"] = floor["backprop_s"] / times["backprop"]["median_s"]
    return {"ratios": ratios, "shares": shares}


def measure_compile(case: Case, options: Options, precision: str) -> Row:
    """What tracing and compiling take."""
    weights, (x, y) = network(case, options), batch(case)
    gd = updates(Case("gd", case.hidden_layers, case.width), options, precision)
    wanted = {
        "gd": gd["mupc"],
        "error-space": updates(Case("error-space", case.hidden_layers, case.width), options, precision)["mupc"],
        "backprop": gd["backprop"],
    }
    compiled(wanted["backprop"], weights, x, y)  # the first compilation of a process pays for more than itself
    times = {}
    for name, update in wanted.items():
        program = compiled(update, weights, x, y)
        times[name] = {cost: getattr(program, cost) for cost in COSTS}
    return {"times": times, "notes": []}

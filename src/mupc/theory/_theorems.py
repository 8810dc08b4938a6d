"""The paper's theorems on linear networks as checks of one network: Theorem A.1, Theorem 1, and the end of §A.2.1."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from ..inference import Energy
from ..io import checks
from ..learning import backprop_gradients
from ..network import Activities, Inputs, Network, Outputs, Rows, as_inputs
from ._condition import Cholesky, Condition, condition_of
from ._equilibrium import check_linear, equilibrium_gradients, gains, loss_energy_ratio, readout
from ._equilibrium_propagation import Given, flatten
from ._hessian import FLOAT64, HessianBlocks, hessian_blocks

EPS = float(np.finfo(np.float64).eps)
NAN = float("nan")
Stacked = Float64[np.ndarray, "size batch"]
Values = Float64[np.ndarray, "_"]


@dataclasses.dataclass(frozen=True)
class Convexity:
    """The result of `mupc.theory.convexity`.

    - `definite`, `smallest`: the kind of the Hessian as `mupc.theory.Condition` names it, and its least eigenvalue.
    - `log_determinant`: log det H from its block Cholesky factor; NaN if H is not `positive definite` in float64.
    - `log_rescaling`: log det(λS) from the singular values of the network's gains, never from H.
    - `tolerance`: how far rounding may move these two apart; infinite where H is too ill-conditioned for the first.
    - `evidence`: `determinants`, `rescaling` or `eigenvalues`, whichever decided; see `mupc.theory.convexity`.
    - `holds`: the verdict.
    """

    definite: str
    smallest: float
    log_determinant: float
    log_rescaling: float
    tolerance: float
    evidence: str

    @property
    def holds(self) -> bool:
        """Whether the theorem holds, by the evidence that could be had."""
        if self.evidence == "determinants":
            return abs(self.log_determinant - self.log_rescaling) <= self.tolerance
        return self.definite.startswith("positive")


def convexity(network: Network, *, energy: Energy | None = None, free_input: bool = False) -> Convexity:
    """Check Theorem A.1: the activity Hessian of a linear network is positive definite, or semidefinite if z₀ is free.

    With A the unit triangular map from activities to errors, and the gains J of `mupc.theory.rescaling` side by side,

        H = Aᵀ(I + λJᵀJ)A,      so that      log det H = log det(λS) = Σ_i log(1 + λσ_i(J)²) ≥ 0.

    The theorem is true for any weights. This checks as much of it as float64 can see, by the first evidence that
    applies:

    - `eigenvalues`, if z₀ is free: no eigenvalue is below zero by more than rounding. Some are zero if there are more
      inputs than outputs.
    - `determinants`, up to κ ≈ 1e13: every eigenvalue is above zero by more than rounding, the Cholesky factorisation
      succeeds, and the two sides of the equation, computed in unrelated ways, agree to `tolerance`. This is
      1e-10·(1 + log det(λS)), plus κ rounding errors per unknown, plus the change in the sum from one rounding error of
      σ₁ per unknown.
    - `rescaling`, beyond that: float64 cannot tell H from a singular matrix, and only shows that no eigenvalue is below
      zero by more than rounding. That H is definite follows from the equation: A is invertible, and `log_rescaling` is
      finite and not negative.

    **Arguments:** a linear network, `energy=mupc.Energy(...)` with the squared error and no activity decay (which would
    only add to every eigenvalue), and whether z₀ is free.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    found = mupc.theory.convexity(network)
    found.holds, found.evidence                                     # True, 'determinants'
    abs(found.log_determinant - found.log_rescaling) < 1e-12        # True
    ```
    """
    energy = check_linear(network, energy, "Theorem A.1", cure="Use mupc.theory.condition_number.")
    weight = float(energy.output_weight)
    values = _singular_values(network)
    blocks = hessian_blocks(network, energy=energy, free_input=free_input)
    condition = condition_of(blocks)
    log_determinant, log_rescaling = _log_determinant(blocks, condition), _log_rescaling(weight, values)
    evidence = "rescaling" if np.isnan(log_determinant) else "determinants"
    if free_input:
        evidence = "eigenvalues"
    doubt = _log_rescaling(weight, values + blocks.size * EPS * values[0]) - log_rescaling
    tolerance = 1e-10 * (1 + log_rescaling) + blocks.size * EPS * condition.kappa + doubt
    return Convexity(condition.definite, condition.smallest, log_determinant, log_rescaling, tolerance, evidence)


@dataclasses.dataclass(frozen=True)
class BackpropLimit:
    """How far a network is from the limit in which predictive coding is backpropagation. In the limit both distances
    are zero, and the cosine and the ratio are one.

    - `rescaling_distance`: ‖λS − I‖, the spectral norm.
    - `gradient_distance`, `cosine`: ‖g_PC − g_BP‖ / ‖g_BP‖ and the cosine between them, over all weights and biases.
      NaN where a gradient is zero.
    - `ratio`: the loss over the equilibrated energy.
    - `aspect`: L/N.
    """

    rescaling_distance: float
    gradient_distance: float
    cosine: float
    ratio: float
    aspect: float


def backprop_limit(network: Network, x: Rows, y: Rows, *, energy: Energy | None = None) -> BackpropLimit:
    """Measure the limit of Theorem 1: as L/N → 0 the rescaling S of μPC goes to the identity, the equilibrated energy
    to the loss, and the gradients of predictive coding at equilibrium to those of backpropagation. The same happens to
    any network as the output precision λ → 0.

    Everything is computed in float64, from `mupc.theory.equilibrium_gradients` and `mupc.backprop_gradients` without
    weight penalties.

    **Arguments:** as for `mupc.theory.equilibrium_energy`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=256, hidden_layers=4, activation="linear", key=jr.key(0))
    found = mupc.theory.backprop_limit(network, jnp.ones((5, 8)), jnp.eye(5, 3))
    found.aspect, found.gradient_distance < 0.1     # 0.0195, True
    ```
    """
    energy = check_linear(network, energy, "Theorem 1", cure="Use mupc.credit_reach.")
    weight = float(energy.output_weight)
    plain = Energy(output_precision=weight)
    pc = _vector(equilibrium_gradients(network, x, y, energy=plain))
    with jax.enable_x64(True):
        bp = _vector(backprop_gradients(network, x, y, energy=plain, precision="float64"))
    sizes = np.linalg.norm(pc), np.linalg.norm(bp)
    return BackpropLimit(
        rescaling_distance=float(weight * _singular_values(network)[0] ** 2),
        gradient_distance=float(np.linalg.norm(pc - bp) / sizes[1]) if sizes[1] else NAN,
        cosine=float(pc @ bp / (sizes[0] * sizes[1])) if all(sizes) else NAN,
        ratio=loss_energy_ratio(network, x, y, energy=plain),
        aspect=(network.hidden_layers + 1) / network.width,
    )


@dataclasses.dataclass(frozen=True)
class FreeOutput:
    """Distances of inference without a target from the forward pass, relative to the norm of the forward pass.

    - `solution_distance`: that of the exact solution H⁻¹b.
    - `distances`: those of gradient descent, at the start and after each step, (steps + 1,). `lr`: its step size.
    """

    solution_distance: float
    distances: Values
    lr: float


def free_output(
    network: Network, x: Rows, *, activities: Given | None = None, lr: float | None = None, steps: int = 100
) -> FreeOutput:
    """Check the end of §A.2.1: if nothing clamps the output z_L, inference converges to the forward pass,

        z* = H⁻¹b = (z₁, …, z_H, z_L) of the forward pass,      b = −∂F/∂z at z = 0,

    with H of `mupc.theory.hessian_blocks(network, free_output=True)`. This computes both sides, and runs gradient
    descent z ← z − lr·(Hz − b), whose distance from the forward pass cannot grow if lr < 2/λ_max.

    **Arguments:**

    - `network`, `x`: a linear network and inputs (B, D).
    - `activities`: the start of gradient descent, hidden ones and output ((H, B, N), (B, C)); standard normal values by
      default.
    - `lr`, `steps`: its step size, 1/λ_max by default, and the number of steps.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    found = mupc.theory.free_output(network, jnp.ones((5, 8)), steps=50)
    found.solution_distance < 1e-10, found.distances[-1] < found.distances[0]       # True, True
    ```
    """
    check_linear(network, None, "the equilibrium with a free output")
    checks.integer("steps", steps, 1)
    if lr is not None:
        checks.number("lr", lr, above=0)
    blocks = hessian_blocks(network, free_output=True)
    with jax.enable_x64(True):
        exact, inputs = FLOAT64.cast((network, as_inputs(network, x)))
        pairs = exact.forward_pass(inputs, FLOAT64), _drive(exact, inputs)
        want, drive = (np.asarray(flatten(network, pair, len(inputs))).T for pair in pairs)
    if activities is None:
        z = np.random.default_rng(0).standard_normal(want.shape)
    else:
        z = np.asarray(flatten(network, activities, len(inputs))).T
    lr = 1 / condition_of(blocks).largest if lr is None else float(lr)
    solution = Cholesky(blocks).solve(drive)
    size = np.linalg.norm(want)
    distances = [np.linalg.norm(z - want)]
    for _ in range(steps):
        z = z - lr * (blocks.product(z) - drive)
        distances.append(np.linalg.norm(z - want))
    return FreeOutput(float(np.linalg.norm(solution - want) / size), np.array(distances) / size, lr)


def _singular_values(network: Network) -> Values:
    """Return σ of the gains J side by side, (C, H·N), in descending order."""
    with jax.enable_x64(True):
        found = np.asarray(_rotated_gains(FLOAT64.cast(network)))
    if not np.all(np.isfinite(found)):
        raise ValueError("the gains of the network overflow float64: its weights are too large. Scale them down.")
    return np.linalg.svd(np.concatenate(found, axis=1), compute_uv=False)


@eqx.filter_jit
def _rotated_gains(network: Network) -> Float[Array, "layers rows width"]:
    """Return J without the Q of the readout's QR, which does not change σ. This leaves at most N rows: rounding in more
    rows than the network has directions would look like gain."""
    return gains(network, jnp.linalg.qr(readout(network), mode="r"))


def _log_determinant(blocks: HessianBlocks, condition: Condition) -> float:
    if condition.definite != "positive definite":
        return NAN
    try:
        return Cholesky(blocks).log_determinant
    except np.linalg.LinAlgError:  # at the limit of float64
        return NAN


def _log_rescaling(weight: float, values: Values) -> float:
    return float(np.sum(np.log1p(weight * values**2)))


def _vector(network: Network) -> Values:
    leaves = jax.tree.leaves((network.input, network.hidden, network.readout))
    return np.concatenate([np.ravel(leaf) for leaf in leaves])


@eqx.filter_jit
def _drive(network: Network, x: Inputs) -> tuple[Activities, Outputs]:
    """Return b = −∂F/∂z at z = 0, with a free output."""

    def value(hidden: Activities, output: Outputs) -> Float[Array, ""]:
        e, predicted = network.prediction_errors(hidden, x, FLOAT64)
        return -(jnp.sum(e**2) + jnp.sum((output - predicted) ** 2)) / 2

    zeros = jnp.zeros((network.hidden_layers, len(x), network.width)), jnp.zeros((len(x), network.out_size))
    b: tuple[Activities, Outputs] = jax.grad(value, (0, 1))(*zeros)
    return b

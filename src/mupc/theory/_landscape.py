"""The energy over a plane of activities, and the path of gradient descent through it: the paper's landscape insets."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Float64

from ..inference import Energy, as_energy
from ..inference import energy as total_energy
from ..io import checks
from ..network import Inputs, Network, Outputs, Rows, Scalar
from ._condition import DENSE, ROUGH, leading, positive
from ._equilibrium import equilibrium
from ._hessian import FLOAT64, HessianBlocks, batch_of_one, check_weights, hessian_blocks, is_quadratic, one_state

State = Float64[np.ndarray, "layers width"]
Plane = Float64[np.ndarray, "2 layers width"]
Point = Float[Array, "layers width"]


@dataclasses.dataclass(frozen=True)
class Landscape:
    """The energy of one sample over the plane z = centre + α d₁ + β d₂.

    - `energies`: (points, points). `energies[j, i]` belongs to α = `axis[i]` and β = `axis[j]`: rows follow β, as
      contour plots expect.
    - `axis`: the values of α, and of β, (points,).
    - `centre`: (H, N). `directions`: d₁ and d₂, (2, H, N).
    - `curvatures`: dᵀHd of each direction with the Hessian at the centre, (2,).
    """

    energies: Float64[np.ndarray, "points points"]
    axis: Float64[np.ndarray, " points"]
    centre: State
    directions: Plane
    curvatures: Float64[np.ndarray, " 2"]

    def project(self, activities: ArrayLike) -> Float64[np.ndarray, "*path 2"]:
        """Return (α, β) of the point in the plane nearest to each of the activities (…, H, N), such as those of
        `mupc.theory.descent_path`."""
        given = np.asarray(activities, np.float64)
        if given.shape[-2:] != self.centre.shape:
            checks.shape("activities", given, ("…", *self.centre.shape), "Pass those of one sample.")
        offsets = (given - self.centre).reshape(*given.shape[:-2], -1)
        return offsets @ np.linalg.pinv(self.directions.reshape(2, -1))


def landscape(
    network: Network,
    x: Rows,
    y: Rows,
    activities: Rows | None = None,
    *,
    directions: ArrayLike | None = None,
    span: float = 2.0,
    points: int = 30,
    energy: Energy | None = None,
) -> Landscape:
    """Compute the energy of one sample on a grid, F(z + α d₁ + β d₂) with α and β in [−span, span], in float64.

    **Arguments:**

    - `network`, `x`, `y`: the network and one sample, (D,) or (1, D), and (C,) or (1, C) or its label.
    - `activities`: the centre z, (H, N) or (H, 1, N). The default, for a linear network with the squared error, is the
      inference equilibrium.
    - `directions`: d₁ and d₂, (2, H, N). By default the flattest and the steepest direction: unit eigenvectors of the
      activity Hessian at the centre, for its smallest and its largest eigenvalue.
    - `span`, `points`: the half-width of the grid and its resolution, as in the paper by default.
    - `energy`: `mupc.Energy(...)`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    found = mupc.theory.landscape(network, jnp.ones(8), jnp.zeros(3), points=11)
    found.energies.shape, found.energies.argmin()     # (11, 11), 60: the middle
    found.curvatures[1] / found.curvatures[0]         # 88 or so, the condition number
    ```
    """
    check_weights(network)
    checks.number("span", span, above=0)
    checks.integer("points", points, 2)
    energy = as_energy(energy)
    with jax.enable_x64(True):
        exact, inputs, targets = FLOAT64.cast((network, *batch_of_one(network, x, y, energy)))
        if activities is None:
            if not is_quadratic(network, energy):
                raise ValueError(
                    f"activities missing: activation {network.activation.name!r} with loss {energy.loss_name!r} has no "
                    "equilibrium in closed form. Pass mupc.forward(network, x)[0], or those of a mupc.Solution."
                )
            activities = equilibrium(exact, inputs, targets, energy=energy)
        centre = one_state(network, activities)
        blocks = hessian_blocks(exact, inputs, targets, centre, energy=energy)
        chosen = _extreme_vectors(blocks) if directions is None else _checked(directions, centre.shape)
        plane = chosen.reshape(2, *centre.shape)
        axis = np.linspace(-span, span, points)
        arrays = jnp.asarray(centre), jnp.asarray(plane), jnp.asarray(axis)
        energies = _grid(*arrays, (exact, inputs, targets), energy)
    curvatures = np.array([d @ blocks.product(d) for d in plane.reshape(2, -1)])
    return Landscape(np.array(energies), axis, centre, plane, curvatures)


def descent_path(
    network: Network,
    x: Rows,
    y: Rows,
    start: Rows,
    *,
    lr: float,
    steps: int,
    energy: Energy | None = None,
) -> Float64[np.ndarray, "path layers width"]:
    """Return the activities along gradient descent z ← z − lr·∂F/∂z of one sample, (steps + 1, H, N), in float64. The
    first are the start, the last those of `mupc.infer` with `mupc.GradientDescent(lr, steps)` from there.

    **Arguments:** the network and one sample as for `mupc.theory.landscape`, where to start, (H, N) or (H, 1, N), the
    step size, the number of steps, and `energy=mupc.Energy(...)`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    x, y = jnp.ones(8), jnp.zeros(3)
    start, _ = mupc.forward(network, x[None])
    path = mupc.theory.descent_path(network, x, y, start, lr=0.1, steps=20)
    path.shape                                                          # (21, 4, 16)
    mupc.theory.landscape(network, x, y).project(path).shape            # (21, 2)
    ```
    """
    check_weights(network)
    checks.number("lr", lr, above=0)
    checks.integer("steps", steps, 1)
    energy = as_energy(energy)
    with jax.enable_x64(True):
        sample = FLOAT64.cast((network, *batch_of_one(network, x, y, energy)))
        first = jnp.asarray(one_state(network, start))
        return np.array(_descend(first, sample, jnp.asarray(lr, jnp.float64), steps, energy))


def _checked(directions: ArrayLike, shape: tuple[int, ...]) -> Plane:
    given = np.array(directions, np.float64)
    checks.shape("directions", given, (2, *shape), "They are two activities, (2, hidden_layers, width).")
    if not np.all(np.isfinite(given)) or np.linalg.matrix_rank(given.reshape(2, -1)) < 2:
        raise checks.ArgumentError(
            "directions", "must be finite and span a plane.", "Pass two that are not multiples of each other."
        )
    return given


def _extreme_vectors(blocks: HessianBlocks) -> Float64[np.ndarray, "2 size"]:
    """Return unit eigenvectors of the smallest and the largest eigenvalue. Their largest entries are positive."""
    if blocks.size < 2:
        raise ValueError("a landscape needs two unknowns or more, got a network with one hidden unit. Use a wider one.")
    if blocks.size <= DENSE:
        found = np.linalg.eigh(blocks.dense())[1].T[[0, -1]]
    else:
        largest = leading(blocks.size, blocks.product, ROUGH)[0]
        shifts = (), (-1, largest, ROUGH)  # of H, and of −H
        found = np.stack([leading(blocks.size, positive(blocks, largest, *shift)[1].solve)[1] for shift in shifts])
    peaks = np.argmax(np.abs(found), axis=1)
    return found * np.sign(found[[0, 1], peaks])[:, None]


Sample = tuple[Network, Inputs, Outputs]
"""A network and a batch of one, in float64."""


def _value(z: Point, sample: Sample, energy: Energy) -> Scalar:
    network, x, y = sample
    return total_energy(network, z[:, None], x, y, energy=energy)


@eqx.filter_jit
def _grid(
    centre: Point, plane: Float[Array, "2 layers width"], axis: Float[Array, " points"], sample: Sample, energy: Energy
) -> Float[Array, "points points"]:
    def row(beta: Scalar) -> Float[Array, " points"]:
        z = centre + axis[:, None, None] * plane[0] + beta * plane[1]
        return jax.vmap(lambda one: _value(one, sample, energy))(z)

    return jax.lax.map(row, axis)  # row by row: a large network's grid would not fit in memory


@eqx.filter_jit
def _descend(start: Point, sample: Sample, lr: Scalar, steps: int, energy: Energy) -> Float[Array, "path layers width"]:
    def step(z: Point, _: None) -> tuple[Point, Point]:
        following = z - lr * jax.grad(_value)(z, sample, energy)
        return following, following

    return jnp.concatenate([start[None], jax.lax.scan(step, start, length=steps)[1]])

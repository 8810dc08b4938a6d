"""`sample`: draw activities and outputs from the generative model that the energy defines."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import PyTree

from ..io import checks
from ..network import (
    AbstractNetwork,
    Inputs,
    Outputs,
    Precision,
    PRNGKeyArray,
    Real,
    Rows,
    as_inputs,
    check_key,
    resolve_precision,
)
from ._dense_problem import pose
from ._energy import Energy, as_energy
from ._problem import Batch, standard_normal


def sample(
    network: AbstractNetwork,
    x: Rows,
    key: PRNGKeyArray,
    temperature: Real = 1.0,
    energy: Energy | None = None,
    *,
    output_noise: bool = True,
) -> tuple[PyTree, Outputs]:
    """Draw activities and an output for every input, from the model whose joint density is exp(−F/T):

        z_ℓ = f_ℓ(z_{ℓ-1}) + e_ℓ,    e_ℓ ~ N(0, T·I),      y = f_L(z_H) + ε,    ε ~ N(0, (T/λ)·I),

    one layer after the other from the input up. A network from a class label to an image then draws images of that
    class.

    **Arguments:**

    - `network`, inputs `x` (B, D): one draw for each row, so repeat a row for more draws. `key`: a JAX random key.
    - `temperature`: T; zero gives the forward pass.
    - `energy`: its λ is `output_precision`. Activity decay has no such model.
    - `output_noise`: leave out ε with False, to see what the last activities predict. Only the squared error has
      Gaussian noise at the output: with another loss, leave it out.

    **Returns:** the activities and the output, as `mupc.forward` does.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    activities, y = mupc.sample(network, jnp.ones((100, 8)), jr.key(1), temperature=0.5)
    activities.shape, y.shape       # (4, 100, 16), (100, 3)
    ```
    """
    energy = as_energy(energy)
    check_key(key)
    checks.number("temperature", temperature, at_least=0)
    checks.boolean("output_noise", output_noise)
    if energy.decays_activities:
        wrong = f"= {energy.activity_decay} does not have a model that can be drawn from layer by layer."
        raise checks.ArgumentError("activity_decay", wrong, "Set it to 0.")
    if output_noise and energy.output_function != "mse":
        wrong = f"is {energy.loss_name}, and only the squared error has Gaussian noise at the output."
        raise checks.ArgumentError("loss", wrong, "Pass output_noise=False.")
    policy = resolve_precision(None, network)
    network, inputs = policy.cast((network, as_inputs(network, x)))
    return _drawn(network, inputs, key, jnp.asarray(temperature, policy.dtype), energy, policy, output_noise)


@eqx.filter_jit
def _drawn(
    network: AbstractNetwork,
    x: Inputs,
    key: PRNGKeyArray,
    temperature: Real,
    energy: Energy,
    policy: Precision,
    output_noise: bool,
) -> tuple[PyTree, Outputs]:
    batch = Batch(x, jnp.zeros((len(x), *network.output_shape), x.dtype))
    problem = pose(network, batch, energy, policy)
    hidden, last = jr.split(key)
    errors = jax.tree.map(lambda e: jnp.sqrt(temperature) * e, problem.noise(hidden))
    drawn = problem.unpack(problem.follow(errors))
    if not output_noise:
        return drawn.activities, drawn.output
    size = jnp.sqrt(temperature / energy.output_weight)
    return drawn.activities, drawn.output + size * standard_normal(last, drawn.output)

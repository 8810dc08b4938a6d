# %% [markdown]
# # The landscape of inference
#
# How hard is inference, and how does it change the landscape on which weights learn? Three pictures: the valley in
# which activities move, its condition number κ over depth, and the saddle where all weights are zero.

# %%
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np

import mupc
from mupc import theory

quick = os.environ.get("MUPC_NOTEBOOKS") == "quick"  # fewer and smaller networks, for tests
width, depths = (8, (2, 4)) if quick else (32, (2, 4, 8, 16, 32, 64, 128))
points = 9 if quick else 41


def linear(hidden_layers, *, size=width, skip=1, parameterisation="mupc", seed=0):
    """Return a linear network with as many inputs and outputs as units."""
    options = {"activation": "linear", "skip": skip, "parameterisation": parameterisation}
    return mupc.Network(size, size, size, hidden_layers, key=jr.key(seed), **options)


# %% [markdown]
# ## A valley
#
# The energy of one sample, in the plane of its flattest and its steepest direction, and the path of gradient descent.
# The valley is long and narrow. The steepest direction limits the step size, and with such small steps there is hardly
# any progress in the flattest direction. κ is the ratio of the two curvatures.

# %%
network = linear(4 if quick else 8)
x, y = jr.normal(jr.key(1), (width,)), jr.normal(jr.key(2), (width,))
valley = theory.landscape(network, x, y, points=points, span=4.0)
start = valley.centre + np.tensordot([-3.5, 3.0], valley.directions, 1)
path = theory.descent_path(network, x, y, start, lr=0.05, steps=400)
along = valley.project(path)

figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
contours = axes.contourf(valley.axis, valley.axis, np.log10(valley.energies), 20, cmap="viridis")
axes.plot(*along.T, "w.-", markersize=3, linewidth=1)
axes.plot(*along[0], "ro", label="start")
axes.plot(0, 0, "r*", markersize=12, label="equilibrium")
axes.set(xlabel="flattest direction", ylabel="steepest direction")
axes.legend()
figure.colorbar(contours, label="log₁₀ of the energy")
print(f"κ = {valley.curvatures[1] / valley.curvatures[0]:.0f}")

# %% [markdown]
# ## κ over depth
#
# κ grows with depth in every parameterisation, and μPC does not change that. What it does: networks of all depths start
# alike, and they train although inference has not converged.

# %%
kinds = {
    "SP, no skips": {"parameterisation": "sp", "skip": 0},
    "μPC, skips": {"parameterisation": "mupc", "skip": 1},
    "orthogonal, no skips": {"parameterisation": "orthogonal", "skip": 0},
}
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for name, options in kinds.items():
    kappas = [theory.condition_number(linear(depth, **options)).kappa for depth in depths]
    left.loglog(depths, kappas, "o-", label=name)
    values = np.sort(theory.spectrum(linear(depths[-2], **options)).values)
    right.semilogy(np.linspace(0, 1, len(values)), values, label=name)
left.set(xlabel="hidden layers", ylabel="condition number κ")
right.set(xlabel="share of the eigenvalues", ylabel="eigenvalue", title=f"{depths[-2]} hidden layers")
left.legend()
left.grid(alpha=0.3)

# %% [markdown]
# ## The saddle at the origin
#
# With all weights at zero the loss of a deep linear network is flat: its Hessian is zero, because the output is a
# product of many weights. The energy *after inference* is not. Scale all weights of a network by $t$, and look at
# both near $t = 0$.

# %%
drawn = linear(3, size=4, skip=0, parameterisation="sp")
inputs, targets = jr.normal(jr.key(3), (64, 4)), jr.normal(jr.key(4), (64, 4))


def scaled(t):
    """Return the network with all of its weights times t."""
    return jax.tree.map(lambda leaf: leaf * t if eqx.is_array(leaf) else leaf, drawn)


scales = np.linspace(-0.8, 0.8, points)
loss = [float(jnp.sum((scaled(t)(inputs) - targets) ** 2) / 2 / len(inputs)) for t in scales]
energy = [float(theory.equilibrium_energy(scaled(t), inputs, targets)) for t in scales]

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(scales, loss, label="loss (backpropagation)")
axes.plot(scales, energy, label="energy at equilibrium (predictive coding)")
axes.set(xlabel="t, the scale of all weights", ylabel="value")
axes.legend()
axes.grid(alpha=0.3)

# %% [markdown]
# The loss hardly changes around zero. The equilibrated energy bends down on both sides: the origin is a strict
# saddle, and gradient descent on the weights leaves it.

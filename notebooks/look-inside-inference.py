# %% [markdown]
# # Look inside inference
#
# Inference lowers the energy by moving activities. Here we watch it happen: how gradient descent sends a wave of
# errors down the network, and how error space reaches all layers at once.

# %%
import io
import os

import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import mupc

quick = os.environ.get("MUPC_NOTEBOOKS") == "quick"  # fewer layers and pictures, for tests
layers, every = (8, 4) if quick else (32, 1)

# %%
digits = mupc.data.load("digits")
network = mupc.Network(digits.in_size, digits.out_size, width=64, hidden_layers=layers, key=jr.key(0))
x, y = digits.x_train[:64], digits.y_train[:64]

# %% [markdown]
# ## The energy falls, and moves
#
# At the forward pass all hidden errors are zero, and the energy is the loss of the output. Inference lowers it and
# spreads it over the layers.

# %%
solution = mupc.infer(network, x, y, mupc.GradientDescent(lr=0.4, steps=4 * layers), history=True)
converged = mupc.infer(network, x, y, mupc.ErrorSpace(steps=20, cg_steps=None))
energies = {
    "forward pass": mupc.layer_energies(network, mupc.forward(network, x)[0], x, y),
    f"gradient descent, {4 * layers} steps": mupc.layer_energies(network, solution.activities, x, y),
    "equilibrium": mupc.layer_energies(network, converged.activities, x, y),
}

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(solution.history.energies, label="gradient descent")
left.axhline(converged.energy, color="C1", linestyle="--", label="equilibrium")
left.set(xlabel="step of inference", ylabel="energy")
left.legend()
for (name, values), mark in zip(energies.items(), "so^", strict=True):
    right.semilogy(range(1, layers + 2), values, mark, markersize=4, label=name)
right.set(xlabel="layer (the last is the output)", ylabel="energy of the layer", ylim=(1e-12, 2))
right.legend(fontsize="small")

# %% [markdown]
# ## The wave
#
# After $t$ steps of gradient descent the error has come $t$ layers down, and has shrunk at every layer. Error space
# takes the errors themselves as unknowns. Its first step already gives every layer an error, and a few more steps
# correct the sizes.


# %%
weights = np.asarray(network.hidden.weight, np.float64)  # so that rounding does not hide a small signal


def predicted(layer, below):
    """Return what a layer predicts for the next one: a W φ(z) + z."""
    return below + network.multipliers[1] * weights[layer] @ np.maximum(below, 0)


def error_sizes(activities):
    """Return the root mean square error of every hidden layer but the first, of one sample."""
    errors = [above - predicted(layer, activities[layer]) for layer, above in enumerate(activities[1:])]
    return np.sqrt(np.mean(np.square(errors), axis=1))


image, target = x[0], y[0]
start = [network.multipliers[0] * np.asarray(network.input.weight, np.float64) @ image]
for layer in range(layers - 1):
    start.append(predicted(layer, start[-1]))
path = mupc.theory.descent_path(network, image, target, np.array(start), lr=0.4, steps=layers + 8)
wave = np.array([error_sizes(activities) for activities in path])
solvers = [mupc.ErrorSpace(cg_steps=count) for count in (1, 2, 3)]
found = [mupc.infer(network, image[None], target[None], solver) for solver in solvers]
passes = [np.sqrt(np.mean(np.square(solution.errors[1:, 0]), axis=1)) for solution in found]

# %%


class Film:
    """A film of figures, which notebooks show as a moving picture."""

    def __init__(self, figures, milliseconds):
        self.pictures, self.milliseconds = [_picture(figure) for figure in figures], milliseconds

    def _repr_png_(self):
        file, (first, *others) = io.BytesIO(), self.pictures
        first.save(file, "PNG", save_all=True, append_images=others, duration=self.milliseconds, loop=0)
        return file.getvalue()


def _picture(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=90)
    plt.close(figure)
    return Image.open(file).convert("P", palette=Image.Palette.ADAPTIVE)


def draw(step):
    """Draw one picture: gradient descent on the left, error space on the right."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    axes[0].bar(range(2, layers + 1), np.maximum(wave[step], 1e-16), color="C0")
    axes[0].set_title(f"gradient descent, {step} step{'' if step == 1 else 's'}")
    done = step * len(passes) // len(wave)
    axes[1].bar(range(2, layers + 1), passes[done], color="C1")
    axes[1].set_title(f"error space, {done + 1} conjugate-gradient step{'s' if done else ''}")
    for panel in axes:
        panel.set(yscale="log", ylim=(1e-15, 1), xlabel="hidden layer (right: next to the output)")
    axes[0].set_ylabel("size of the error")
    return figure


Film(map(draw, range(0, len(wave), every)), milliseconds=250)

# %% [markdown]
# Gradient descent again, as one picture: each row is a step.

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
shown = axes.pcolormesh(range(2, layers + 1), range(len(wave)), np.log10(np.maximum(wave, 1e-16)), cmap="magma")
axes.set(xlabel="hidden layer", ylabel="step of gradient descent")
figure.colorbar(shown, label="log₁₀ of the size of the error")

# %% [markdown]
# ## What it means for learning
#
# A layer without an error does not learn.

# %%
for name, solver in {
    "gradient descent": mupc.GradientDescent(lr=0.4, steps=layers),
    "error space": mupc.ErrorSpace(),
}.items():
    reach = mupc.credit_reach(network, mupc.infer(network, x, y, solver), x, y)
    print(f"{name}: {reach.learning_layers} of {layers + 1} layers learn")

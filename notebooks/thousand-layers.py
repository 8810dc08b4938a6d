# %% [markdown]
# # Train 1,024 layers on a laptop
#
# Residual networks of 8, 128 and 1,024 hidden layers, trained by predictive coding on the built-in digits, with *one*
# learning rate for all of them. At the end we look at which layers learnt.

# %%
import os
import time

import jax.random as jr
import matplotlib.pyplot as plt

import mupc

quick = os.environ.get("MUPC_NOTEBOOKS") == "quick"  # smaller networks, for tests
depths, epochs = ((4, 16), 1) if quick else ((8, 128, 1024), 5)

# %% [markdown]
# ## One rate for every depth
#
# `mupc.fit` infers in error space and scales the rate with the size of the network: 0.05 is meant for 8 layers of 64
# units, and the hidden weights of deeper networks learn slower by a known factor. Compile time does not grow with
# depth, because hidden layers are one stacked array.

# %%
digits = mupc.data.load("digits")
results = {}
for depth in depths:
    network = mupc.Network(digits.in_size, digits.out_size, width=64, hidden_layers=depth, key=jr.key(0))
    begin = time.perf_counter()
    results[depth] = mupc.fit(network, digits, epochs=epochs)
    seconds = time.perf_counter() - begin
    print(f"{depth:5} layers: {100 * results[depth].last['test_accuracy']:.1f} % after {seconds:.0f} s")

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for depth, result in results.items():
    steps = [record["step"] for record in result.history]
    axes.plot(steps, [100 * record["test_accuracy"] for record in result.history], "o-", label=f"{depth} layers")
axes.set(xlabel="step", ylabel="test accuracy (%)")
axes.legend()
axes.grid(alpha=0.3)

# %% [markdown]
# ## Which layers learnt?
#
# `credit_reach` compares the weight gradient of every layer with ε = 1e-8, the size below which Adam hardly moves a
# weight, and with backpropagation's gradient. The paper's inference, gradient descent on the activities with as many
# steps as layers, reaches only the top. `Energy(output_precision=0.01)` is the weight of the loss in the energy, λ.

# %%
middle = depths[1]
network = results[middle].network
x, y = digits.x_train[:64], digits.y_train[:64]
solvers = {
    "error space": (mupc.ErrorSpace(), mupc.Energy(output_precision=0.01)),
    "gradient descent": (mupc.GradientDescent(lr=0.4, steps=middle), mupc.Energy()),
}
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, (solver, energy) in solvers.items():
    reach = mupc.credit_reach(network, mupc.infer(network, x, y, solver, energy=energy), x, y)
    print(f"{name}: {reach.learning_layers} of {len(reach.entry_sizes)} layers learn, {reach.regime}")
    axes.semilogy(range(1, len(reach.entry_sizes) + 1), reach.entry_sizes, label=name)
axes.axhline(1e-8, color="grey", linestyle=":", label="Adam's ε")
axes.set(xlabel="layer, from the input to the readout", ylabel="size of gradient entries", ylim=(1e-30, 1))
axes.legend()
axes.grid(alpha=0.3)

# %% [markdown]
# In error space, every layer has a gradient of about the same size. With gradient descent, gradients fall exponentially
# below the top. Layers whose gradients are below Adam's ε keep their initial weights.

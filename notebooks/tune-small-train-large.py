# %% [markdown]
# # Tune small, train large
#
# A grid of learning rates on a small network takes seconds. If rates scale with width and depth, the best rate of the
# small network also suits a network that is eight times as deep and four times as wide.

# %%
import os

import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np

import mupc

quick = os.environ.get("MUPC_NOTEBOOKS") == "quick"  # smaller networks and fewer rates, for tests
small, large = ((8, 2), (16, 4)) if quick else ((32, 8), (128, 64))
rates = (0.1, 0.02) if quick else (0.4, 0.2, 0.1, 0.05, 0.02, 0.01)
seeds = range(1 if quick else 2)

# %%
digits = mupc.data.load("digits")


def losses(size, rate_scaling):
    """Return the training loss for every rate, mean over seeds. All runs train side by side, as one program."""
    width, depth = size
    networks = [
        mupc.Network(digits.in_size, digits.out_size, width, hidden_layers=depth, key=jr.key(seed)) for seed in seeds
    ]
    runs = [mupc.Run(network, mupc.ErrorSpace(), rate, energy=energy) for rate in rates for network in networks]
    base = {} if rate_scaling == "none" else {"base_width": small[0], "base_hidden_layers": small[1]}
    trained = mupc.fit_many(
        runs, digits, epochs=1 if quick else 2, schedule="constant", rate_scaling=rate_scaling, **base
    )
    ended = [np.inf if result.diverged else result.last["train_loss"] for result in trained]
    return np.array(ended).reshape(len(rates), -1).mean(axis=1)


energy = mupc.Energy(output_precision=0.01)

# %% [markdown]
# Both rules, scaled and plain, give the small network the same rates, because its size is the base size. So we train
# it once.

# %%
on_small = losses(small, "mup")
on_large = {"scaled rates": losses(large, "mup"), "plain rates": losses(large, "none")}
best = int(np.argmin(on_small))
print(f"best rate of {small[1]} layers of {small[0]}: {rates[best]}")
for name, values in on_large.items():
    regret, own = values[best] / values.min() - 1, rates[values.argmin()]
    print(f"{large[1]} layers of {large[0]}, {name}: {100 * regret:.0f} % more loss than with their own best, {own}")

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.loglog(rates, on_small, "ko-", label=f"{small[1]} layers of {small[0]}")
for name, values in on_large.items():
    axes.loglog(rates, values, "s--", label=f"{large[1]} layers of {large[0]}, {name}")
axes.axvline(rates[best], color="grey", linestyle=":")
axes.set(xlabel="learning rate at the base size", ylabel="training loss of the last epoch", ylim=(None, 1))
axes.legend()
axes.grid(alpha=0.3, which="both")

# %% [markdown]
# With scaled rates the lowest point stays where it was. With plain rates it moves to the left: the rate that is best
# for the small network is too large for the large one.
#
# `mupc.transfer` does all of this in one call, and `mupc transfer` on the command line.

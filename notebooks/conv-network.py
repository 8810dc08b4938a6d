# %% [markdown]
# # A convolutional network, and what its layers learn
#
# A small residual network of convolutions, trained by predictive coding on the 8 × 8 digits. Then we ask what its
# layers know before and after training.

# %%
import os

import jax
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mupc

quick = os.environ.get("MUPC_NOTEBOOKS") == "quick"  # a smaller network, for tests
width, blocks, epochs = (4, (1, 1), 0.5) if quick else (8, (2, 2, 2), 6)

# %%
digits = mupc.data.load("digits")
network = mupc.models.resnet(digits.sample_shape, digits.out_size, width=width, blocks=blocks, key=jr.key(0))
energy = mupc.Energy(loss="cross-entropy", output_precision=0.1)
result = mupc.fit(network, digits, mupc.ErrorSpace(cg_steps=1), energy=energy, epochs=epochs)
print(network.layer_names)
print(f"{100 * result.last['test_accuracy']:.1f} % on the test set")

# %% [markdown]
# ## Every node has an error of its own
#
# Each node of the chain predicts the next activity. Inference may correct the prediction, and the difference is the
# node's error. Each weight learns from the error of its own node.

# %%
x, y = digits.x_train[:64], digits.y_train[:64]
solution = mupc.infer(result.network, x, y, mupc.ErrorSpace(cg_steps=1), energy=energy)
reach = mupc.credit_reach(result.network, solution, x, y)
print(reach)

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.bar(network.layer_names, reach.entry_sizes)
axes.set(yscale="log", ylabel="size of gradient entries")
axes.tick_params(axis="x", rotation=40)

# %% [markdown]
# ## What a linear probe finds in each layer
#
# Take the activities of a layer, mean over pixels, and train logistic regression on them. The better a layer separates
# the classes, the more accurate this probe is.


# %%
def layer_features(network, x):
    """Return the features of every layer: the mean over pixels of its activities in the forward pass."""
    stacks = mupc.forward(network, x)[0]
    return [np.mean(layer, axis=(-2, -1)) for stack in stacks for layer in np.asarray(stack)]


def probe_accuracies(network):
    """Return the accuracy on test samples of a linear probe of each layer."""
    labels = np.argmax(digits.y_train, 1), np.argmax(digits.y_test, 1)
    layers = zip(layer_features(network, digits.x_train), layer_features(network, digits.x_test), strict=True)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return [100 * probe.fit(train, labels[0]).score(test, labels[1]) for train, test in layers]


figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
names = network.layer_names[:-1]
axes.plot(names, probe_accuracies(network), "o--", label="before training")
axes.plot(names, probe_accuracies(result.network), "o-", label="after training")
axes.set(ylabel="accuracy of a linear probe (%)")
axes.tick_params(axis="x", rotation=40)
axes.legend()
axes.grid(alpha=0.3)

# %% [markdown]
# After training, the probe is more accurate in the last layers, but not in the first ones.

# %% [markdown]
# ## What the first layer looks for
#
# Above: the 3 × 3 filters of the first convolution, the stem. Below: what each makes of one digit.

# %%
filters = next(leaf for leaf in jax.tree.leaves(result.network) if leaf.ndim >= 4)
filters = np.asarray(filters).reshape(-1, *filters.shape[-2:])[:width]
maps = np.asarray(mupc.forward(result.network, digits.x_test[:1])[0][0]).reshape(-1, 8, 8)[:width]

figure, axes = plt.subplots(2, width, figsize=(width * 1.1, 2.6), layout="constrained")
for above, below, kernel, shown in zip(*axes, filters, maps, strict=True):
    above.imshow(kernel, cmap="RdBu", vmin=-abs(filters).max(), vmax=abs(filters).max())
    below.imshow(shown, cmap="gray")
for panel in axes.flat:
    panel.set_axis_off()

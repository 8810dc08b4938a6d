"""Unsupervised learning: a network that generates digits from a free z₀ of ten values.

    python examples/generate_digits.py [--seed 0] [--out runs/generate-digits-N]

The network sees only the images. Inference finds the z₀ that explains an image; new images come from a Gaussian fitted
to the z₀ of the training images. It takes about half a minute on two CPU cores. Expected: the error of reconstruction
on test images is about a third of that of the mean image. Many samples look like digits; one Gaussian for all ten
digits also draws some that lie between two of them.
"""

import argparse
import sys
import time
from pathlib import Path

import jax.random as jr
import numpy as np

import mupc
from mupc.cli.run_folder import RunFolder
from mupc.plots import style

LATENT = 10
SHOWN = 12


def main() -> int:
    parser = argparse.ArgumentParser(description="Learn to generate digits, without labels.")
    parser.add_argument("--seed", type=int, default=0, help="seed (default: 0)")
    parser.add_argument("--out", help="folder for the figure, new or empty (default: runs/generate-digits-N)")
    parser.add_argument("--epochs", type=float, default=30, help="passes through the data (default: 30)")
    options = parser.parse_args()
    begin = time.perf_counter()
    try:
        folder = RunFolder(options.out, "generate-digits").path
    except ValueError as error:
        print(f"generate_digits: {error}", file=sys.stderr)
        return 2
    digits = mupc.data.load("digits")
    network = mupc.Network(
        LATENT,
        digits.in_size,
        width=64,
        hidden_layers=2,
        activation="tanh",
        parameterisation="sp",  # the network is shallow, and inference moves z₀ faster than with μPC's small readout
        use_bias=True,
        key=jr.key(options.seed),
    )
    # enough steps for z₀ to forget its random start, with the help of activity decay
    solver = mupc.GradientDescent(lr=0.1, steps=150)
    energy = mupc.Energy(activity_decay=0.1)

    def show(status: mupc.TrainStatus) -> None:
        record = status.record
        print(f"step {record['step']}/{record['total_steps']}  test loss {record['test_loss']:.3f}")

    result = mupc.fit(
        network,
        digits,
        solver,
        unsupervised=True,
        energy=energy,
        epochs=options.epochs,
        weight_lr=0.003,
        schedule="cosine",
        seed=options.seed,
        evaluate_every=max(1, round(options.epochs * len(digits.train) / 64 / 8)),
        callbacks=[show],
    )
    network = result.network

    def explain(images: np.ndarray) -> np.ndarray:
        """Return the z₀ that inference finds for images."""
        return np.asarray(mupc.infer(network, None, images, solver, energy=energy, key=jr.key(1)).input)

    codes = explain(digits.x_train)
    random = np.random.default_rng(options.seed)
    samples = network(random.multivariate_normal(codes.mean(0), np.cov(codes.T), SHOWN).astype(np.float32))
    # the prediction from z₀ alone, without the hidden layers that inference nudged towards the image
    rebuilt = np.asarray(network(explain(digits.x_test)))
    error = np.mean((digits.x_test - rebuilt) ** 2)
    baseline = np.mean((digits.x_test - digits.x_train.mean(0)) ** 2)

    rows = {"test images": digits.x_test[:SHOWN], "reconstructed": rebuilt[:SHOWN], "sampled": np.asarray(samples)}
    path = folder / "figures" / "generated.png"
    _draw(rows, path)
    print(f"mean squared error per pixel {error:.3f}, of the mean image {baseline:.3f}: {error / baseline:.0%}")
    print(f"figure {path}, {time.perf_counter() - begin:.0f} s in all")
    return 0


def _draw(rows: dict[str, np.ndarray], path: Path) -> None:
    with style.saved_panels(path, len(rows), SHOWN, size=(8.0, 2.4)) as (_, axes):
        for line, (name, images) in zip(axes, rows.items(), strict=True):
            for panel, image in zip(line, images, strict=True):
                panel.imshow(image.reshape(8, 8), cmap="gray_r", vmin=-0.8, vmax=1.9)
                panel.set(xticks=[], yticks=[])
                panel.spines[:].set_visible(False)
            line[0].set_ylabel(name, rotation=0, ha="right", va="center")


if __name__ == "__main__":
    sys.exit(main())

"""Monte Carlo predictive coding: a network that maps a class to an image, and so draws digits of that class.

    python examples/sample_digits.py [--seed 0] [--out runs/sample-digits-N]

The input is a digit's class, the target its image. With noise in inference (`mupc.MonteCarlo`) the weights learn the
distribution of the images of a class, from which `mupc.sample` draws. Without it (`mupc.GradientDescent`) they learn
from the single most likely activities, and the network takes the spread of the images for a much larger one. It takes
about a minute on two CPU cores. Expected: with noise, samples vary about as much as test images do and look like their
class; without it, they vary about eight times as much.
"""

import argparse
import sys
import time
from pathlib import Path

import jax.random as jr
import numpy as np

import mupc
from mupc.cli.run_folder import RunFolder
from mupc.data import Dataset, Schema, Split
from mupc.plots import style

LR, STEPS = 0.02, 50
SOLVERS = {"Monte Carlo": mupc.MonteCarlo(LR, STEPS), "plain descent": mupc.GradientDescent(LR, STEPS)}
ENERGY = mupc.Energy(output_precision=50.0)  # the model's pixels have noise of variance 1/50 around what it predicts
DRAWS, SHOWN = 1000, 3
CLASSES = np.eye(10, dtype=np.float32)


def main() -> int:
    parser = argparse.ArgumentParser(description="Learn to draw digits of a given class.")
    parser.add_argument("--seed", type=int, default=0, help="seed (default: 0)")
    parser.add_argument("--out", help="folder for the figure, new or empty (default: runs/sample-digits-N)")
    parser.add_argument("--epochs", type=float, default=60, help="passes through the data (default: 60)")
    options = parser.parse_args()
    begin = time.perf_counter()
    try:
        folder = RunFolder(options.out, "sample-digits").path
    except ValueError as error:
        print(f"sample_digits: {error}", file=sys.stderr)
        return 2
    digits = mupc.data.load("digits")
    images = [digits.x_test[digits.test.targets == label] for label in range(10)]
    rows = {"test images": [found[:SHOWN] for found in images]}
    print("                 bits per pixel   error of the means   variance")
    for name, solver in SOLVERS.items():
        network = mupc.Network(10, digits.in_size, width=64, hidden_layers=2, parameterisation="sp", use_bias=True,
                               key=jr.key(options.seed))  # fmt: skip
        network = mupc.fit(
            network, by_class(digits), solver, energy=ENERGY, epochs=options.epochs, weight_lr=0.005, seed=options.seed
        ).network
        bits, error, spread = compare(network, images)
        print(f"{name:<16} {bits:>14.2f}   {error:>18.3f}   {spread:>7.2f} times that of the test images")
        rows[name] = [draw(network, label, SHOWN, output_noise=False) for label in range(10)]
    path = folder / "figures" / "samples.png"
    _draw(rows, path)
    print(f"figure {path}, {time.perf_counter() - begin:.0f} s in all")
    return 0


def by_class(digits: Dataset) -> Dataset:
    """Return the data set the other way round: the input is the class, the target the image."""
    train, test = Split(digits.y_train, digits.x_train), Split(digits.y_test, digits.x_test)
    return Dataset("digits by class", train, test, None, Schema(), official=False, source=digits.source)


def draw(network: mupc.Network, label: int, count: int, output_noise: bool = True) -> np.ndarray:
    """Draw images of a class."""
    x = np.repeat(CLASSES[[label]], count, axis=0)
    return np.asarray(mupc.sample(network, x, jr.key(label), energy=ENERGY, output_noise=output_noise)[1], np.float64)


def compare(network: mupc.Network, images: list[np.ndarray]) -> tuple[float, float, float]:
    """Compare draws with the test images of each class: the bits per pixel that a Gaussian with the draws' mean and
    covariance needs for the images, the mean squared difference of the mean images, and the ratio of variances."""
    found = []
    for label, real in enumerate(images):
        drawn = draw(network, label, DRAWS)
        root = np.linalg.cholesky(np.cov(drawn.T))
        whitened = np.linalg.solve(root, (real - drawn.mean(0)).T)
        nats = (whitened**2).sum(0).mean() / 2 + np.log(np.diag(root)).sum() + len(root) * np.log(2 * np.pi) / 2
        error = np.mean((drawn.mean(0) - real.mean(0)) ** 2)
        found.append((nats / np.log(2) / len(root), error, drawn.var(0).mean() / real.var(0).mean()))
    bits, error, spread = np.mean(found, axis=0)
    return float(bits), float(error), float(spread)


def _draw(rows: dict[str, list[np.ndarray]], path: Path) -> None:
    with style.saved_panels(path, len(rows) * SHOWN, len(CLASSES), size=(6.4, 5.6)) as (_, axes):
        for index, line in enumerate(axes):
            name, number = list(rows)[index // SHOWN], index % SHOWN
            for panel, images in zip(line, rows[name], strict=True):
                panel.imshow(images[number].reshape(8, 8), cmap="gray_r", vmin=-0.8, vmax=1.9)
                panel.set(xticks=[], yticks=[])
                panel.spines[:].set_visible(False)
            if number == SHOWN // 2:
                line[0].set_ylabel(name, rotation=0, ha="right", va="center")


if __name__ == "__main__":
    sys.exit(main())

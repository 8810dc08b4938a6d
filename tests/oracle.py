"""A predictive coding network in plain numpy: energy, gradient and Hessian written out by hand, layer by layer.

It shares no code with the library or with `reference.py` (which uses autodiff), needs no compiling, and so can check
every solver on every network, 64 layers deep.
"""

import dataclasses

import numpy as np
import scipy.optimize

SLOPES = {
    "linear": (lambda z: z, np.ones_like),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(float)),
}


@dataclasses.dataclass
class Oracle:
    """One batch of inference: minimise the energy over z (H, B, N), each sample by itself."""

    weights: list
    multipliers: tuple
    x: np.ndarray
    y: np.ndarray
    activation: str
    skip: int
    decay: float = 0.0
    precision: float = 1.0

    @classmethod
    def of(cls, network, x, y, **options):
        weights = [network.input.weight, *network.hidden.weight, network.readout.weight]
        arrays = [np.asarray(w, np.float64) for w in weights]
        name = network.activation.name
        return cls(arrays, network.multipliers, np.asarray(x), np.asarray(y), name, network.skip, **options)

    @property
    def depth(self):
        return len(self.weights) - 1

    def forward(self):
        phi = SLOPES[self.activation][0]
        z = [self.multipliers[0] * self.x @ self.weights[0].T]
        for layer in range(1, self.depth):
            z.append(self.multipliers[1] * phi(z[-1]) @ self.weights[layer].T + self._skipped(z, layer))
        return np.stack(z)

    def _skipped(self, z, layer):
        return z[layer - self.skip] if self.skip and layer >= self.skip else 0.0

    def errors(self, z):
        phi = SLOPES[self.activation][0]
        e = [z[0] - self.multipliers[0] * self.x @ self.weights[0].T]
        for layer in range(1, self.depth):
            predicted = self.multipliers[1] * phi(z[layer - 1]) @ self.weights[layer].T
            e.append(z[layer] - predicted - self._skipped(z, layer))
        return np.stack(e), self.y - self.multipliers[2] * phi(z[-1]) @ self.weights[-1].T

    def energies(self, z):
        """Of each sample."""
        e, r = self.errors(z)
        squares = np.sum(e**2, (0, 2)) + self.decay * np.sum(z**2, (0, 2))
        return squares / 2 + self.precision * np.sum(r**2, 1) / 2

    def gradient(self, z):
        return self.carried(z, *self.errors(z)) + self.decay * z

    def carried(self, z, e, r):
        """What these errors, and those of the output, do to the activities."""
        slope = SLOPES[self.activation][1]
        g = e.copy()
        g[-1] -= slope(z[-1]) * (self.multipliers[2] * self.precision * r @ self.weights[-1])
        for layer in range(1, self.depth):
            g[layer - 1] -= slope(z[layer - 1]) * (self.multipliers[1] * e[layer] @ self.weights[layer])
            if self.skip and layer >= self.skip:
                g[layer - self.skip] -= e[layer]
        return g

    def weight_gradients(self, z, e, r):
        """Of every layer from these errors, divided by the precision: the batch mean of −a·e·φ(z)ᵀ."""
        phi, share = SLOPES[self.activation][0], 1 / len(self.x)
        into = [self.x, *map(phi, z)]
        scales = [self.multipliers[0], *[self.multipliers[1]] * (self.depth - 1), self.multipliers[2]]
        errors = [*(e / self.precision), r]
        return [-share * a * own.T @ u for a, own, u in zip(scales, errors, into, strict=True)]

    def hessian(self):
        """Dense, for linear networks: the gradient is affine in z."""
        width = self.weights[0].shape[0]
        single = dataclasses.replace(self, x=np.zeros((1, self.x.shape[1])), y=np.zeros((1, self.y.shape[1])))
        size = self.depth * width
        columns = [single.gradient(row.reshape(self.depth, 1, width)).ravel() for row in np.eye(size)]
        return np.stack(columns, axis=1)

    def equilibrium(self):
        """Of a linear network, by a dense solve."""
        z = self.forward()
        depth, batch, width = z.shape
        step = np.linalg.solve(self.hessian(), self.gradient(z).transpose(0, 2, 1).reshape(-1, batch))
        return z - step.reshape(depth, width, batch).transpose(0, 2, 1)

    def descend(self, steps, update):
        """`steps` times z ← z + update(gradient, state), from the forward pass."""
        z, state = self.forward(), {}
        for _ in range(steps):
            z = z + update(self.gradient(z), state)
        return z

    def follow(self, e):
        """The activities whose errors are e, layer after layer."""
        phi = SLOPES[self.activation][0]
        z = [self.multipliers[0] * self.x @ self.weights[0].T + e[0]]
        for layer in range(1, self.depth):
            predicted = self.multipliers[1] * phi(z[-1]) @ self.weights[layer].T
            z.append(predicted + self._skipped(z, layer) + e[layer])
        return np.stack(z)

    def error_gradient(self, e, z):
        """Of the energy in the errors: what the activities pull on, carried back to them through the layers above."""
        slope = SLOPES[self.activation][1]
        pull = self.decay * z
        rest = self.y - self.multipliers[2] * SLOPES[self.activation][0](z[-1]) @ self.weights[-1].T
        pull[-1] = pull[-1] - slope(z[-1]) * (self.multipliers[2] * self.precision * rest @ self.weights[-1])
        for layer in range(self.depth - 1, 0, -1):
            pull[layer - 1] += slope(z[layer - 1]) * (self.multipliers[1] * pull[layer] @ self.weights[layer])
            if self.skip and layer >= self.skip:
                pull[layer - self.skip] += pull[layer]
        return e + pull

    def minimum(self):
        """The activities that a long L-BFGS run finds from the forward pass, sample by sample. It runs over the errors,
        in which thousands of iterations are enough at any depth."""
        found = []
        options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-16, "gtol": 1e-12, "maxcor": 30}
        for sample in range(len(self.x)):
            one = dataclasses.replace(self, x=self.x[[sample]], y=self.y[[sample]])
            shape = (self.depth, 1, self.weights[0].shape[0])

            def value(flat, one=one, shape=shape):
                e = flat.reshape(shape)
                z = one.follow(e)
                return one.energies(z)[0], one.error_gradient(e, z).ravel()

            first = np.zeros(np.prod(shape))
            result = scipy.optimize.minimize(value, first, jac=True, method="L-BFGS-B", options=options)
            found.append(one.follow(result.x.reshape(shape)))
        return np.concatenate(found, axis=1)

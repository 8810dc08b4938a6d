"""Limiting spectra of random matrices, with which the paper compares the parts D and O of the activity Hessian."""

import dataclasses
import math

import numpy as np
from jaxtyping import ArrayLike, Float64

from ..io import checks


@dataclasses.dataclass(frozen=True)
class Law:
    """A limiting eigenvalue distribution with the density

        ρ(λ) = √((λ − low)(high − λ)) / (π (constant + slope·(λ − origin)))      for low < λ < high, else zero,

    plus a share `atom` of all eigenvalues at `origin` itself. Make one with `mupc.theory.marchenko_pastur` or
    `mupc.theory.semicircle`.

    - `edges`: low and high, the ends of the density's support.
    - `origin`: the shift of the Marchenko–Pastur law, the centre of the semicircle.
    - `constant`, `slope`: of the denominator.
    - `atom`: above zero only for a Marchenko–Pastur law with a ratio above one. The density integrates to 1 − `atom`.
    """

    edges: tuple[float, float]
    origin: float
    constant: float
    slope: float
    atom: float = 0.0

    def density(self, values: ArrayLike) -> Float64[np.ndarray, "..."]:
        """Return ρ at each of the values, in their shape. It is zero at the edges themselves, even where it diverges
        towards one of them (the lower edge of the Marchenko–Pastur law with ratio one)."""
        at = np.asarray(values, np.float64)
        low, high = self.edges
        inside = (at > low) & (at < high)
        safe = np.where(inside, at, (low + high) / 2)
        height = np.sqrt((safe - low) * (high - safe)) / (np.pi * (self.constant + self.slope * (safe - self.origin)))
        return np.where(inside, height, 0.0)


def marchenko_pastur(ratio: float, *, scale: float = 1.0, shift: float = 0.0) -> Law:
    """Return the Marchenko–Pastur law, the limit of the eigenvalues of shift·I + WᵀW as W grows:

        ρ(λ) = √((λ − λ₋)(λ₊ − λ)) / (2π·ratio·scale·(λ − shift)),      λ_± = shift + scale·(1 ± √ratio)²,

    for W with R rows, C columns and independent entries N(0, scale/R), where ratio = C/R. With more columns than rows,
    the share 1 − 1/ratio of the eigenvalues is `shift` exactly: the law's `atom`.

    In the paper (§A.2.3) this is the spectrum of a block I + a²WᵀW of the Hessian's block diagonal D. With square W
    and a²·Var W = 1/N it is `marchenko_pastur(1.0, shift=1.0)`, on [1, 5].

    **Arguments:** the ratio of columns to rows, the variance of W's entries times the number of rows, and the shift
    added to every eigenvalue.

    **Example:**

    ```python
    import numpy as np, mupc

    law = mupc.theory.marchenko_pastur(1.0, shift=1.0)
    law.edges                                 # (1.0, 5.0)
    law.density(np.array([0.5, 3.0, 6.0]))    # 0, 1/(2π) or so 0.159, 0
    ```
    """
    checks.number("ratio", ratio, above=0)
    checks.number("scale", scale, above=0)
    checks.number("shift", shift)
    root = math.sqrt(ratio)
    edges = (float(shift + scale * (1 - root) ** 2), float(shift + scale * (1 + root) ** 2))
    return Law(edges, float(shift), 0.0, float(2 * ratio * scale), float(max(0.0, 1 - 1 / ratio)))


def semicircle(radius: float = 2.0) -> Law:
    """Return Wigner's semicircle, the limit of the eigenvalues of a dense symmetric matrix with independent entries:

        ρ(λ) = 2 √(radius² − λ²) / (π·radius²)      for |λ| < radius.

    Entries N(0, v/N) off the diagonal of an N×N matrix give the radius 2√v. The paper (§A.2.3) compares radius 2 with
    the off-diagonal part O of the Hessian, which in fact is sparse and has a somewhat broader spectrum.

    **Arguments:** the radius.

    **Example:**

    ```python
    import mupc

    law = mupc.theory.semicircle()
    law.edges                # (-2.0, 2.0)
    law.density(0.0)         # 1/π or so 0.318
    ```
    """
    checks.number("radius", radius, above=0)
    return Law((-float(radius), float(radius)), 0.0, float(radius) ** 2 / 2, 0.0)

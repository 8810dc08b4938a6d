"""Inference solvers: one file each, all `AbstractSolver`."""

from ._base import AbstractSolver as AbstractSolver
from ._base import traced as traced
from ._gradient_descent import GradientDescent as GradientDescent
from ._loop import solve as solve

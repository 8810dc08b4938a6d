"""Inference solvers: one file each, one loop for all."""

from ._base import AbstractSolver as AbstractSolver
from ._base import AbstractTunableSolver as AbstractTunableSolver
from ._base import check_solver as check_solver
from ._base import traced as traced
from ._error_space import ErrorSpace as ErrorSpace
from ._exact_linear import ExactLinear as ExactLinear
from ._gradient_descent import GradientDescent as GradientDescent
from ._loop import Solved as Solved
from ._loop import solve as solve
from ._ode import ODE as ODE
from ._optax import Optax as Optax
from ._spectrum import extremes as extremes

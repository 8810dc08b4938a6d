"""Inference solvers: one file each, one loop for all."""

from ._base import AbstractSolver, AbstractStochasticSolver, AbstractTunableSolver, LoopStatus, check_solver, traced
from ._error_space import ErrorSpace
from ._exact_linear import ExactLinear
from ._gradient_descent import MARGIN, GradientDescent
from ._loop import Solved, solve
from ._monte_carlo import MonteCarlo
from ._ode import ODE
from ._optax import Optax
from ._spectrum import extremes

"""Find the activities that minimise the energy: the energy, the problem that solvers see, the solvers, and `infer`."""

from ._chain_problem import ChainProblem, rounding_warning
from ._dense_problem import DenseProblem, pose
from ._energy import (
    CROSS_ENTROPY,
    LOSSES,
    PAPER_LOSS,
    Energy,
    LossFunction,
    as_energy,
    as_targets,
    check_activities,
    energy,
    half_squares,
    layer_energies,
    with_loss,
)
from ._infer import free_start, infer, infer_batch, infer_problem, pose_for, why_no_kernels
from ._problem import AbstractLinearised, AbstractProblem, Arrays, Batch, Increments, LayerErrors, Point, add, zeros
from ._sample import sample
from ._solution import RESULTS, Solution, check_solution
from .solvers import (
    MARGIN,
    ODE,
    AbstractSolver,
    AbstractStochasticSolver,
    AbstractTunableSolver,
    ErrorSpace,
    ExactLinear,
    GradientDescent,
    LoopStatus,
    MonteCarlo,
    Optax,
    check_solver,
    extremes,
    solve,
    traced,
)

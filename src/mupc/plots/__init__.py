"""Draw figures from saved tables, without JAX. Matplotlib is imported only to draw."""

from .activities import draw_chain_dynamics, draw_forward_pass, draw_network_dynamics
from .conditioning import (
    draw_activity_decay,
    draw_automatic_steps,
    draw_condition_grid,
    draw_condition_powers,
    draw_extreme_eigenvalues,
)
from .coordinates import draw_coordinate_scaling, draw_layer_sizes
from .credit_reach import draw_credit_reach
from .landscape import draw_landscape
from .learning_curve import draw_learning_curve
from .performance import PERFORMANCE_SIZES, PerformanceLine, draw_performance, lines_over_sizes
from .protocol_choices import draw_protocol_choices
from .spectrum import draw_block_spectra, draw_condition_numbers, draw_eigenvalue_densities
from .style import LOSSES, Drawing, written
from .sweep import draw_sweep_contour, draw_sweep_lines
from .theorems import draw_theorems
from .training import (
    draw_accuracy_at_depths,
    draw_accuracy_over_depth,
    draw_accuracy_over_epochs,
    draw_accuracy_over_width,
    draw_credit_over_epochs,
    draw_exact_inference,
    draw_family,
    draw_ratio_curves,
    draw_ratio_maps,
    draw_solver_comparison,
)
from .training_conditioning import (
    draw_conditioning_over_training,
    draw_conditioning_with_accuracies,
    draw_one_step_conditioning,
)
from .transfer import draw_scaled_transfer, draw_transfer, draw_transfer_grids

"""Compute what the paper's theory says about a network: Hessians, condition numbers, spectra, equilibria, theorems.

There are also energy landscapes, the limiting spectra of random matrices, and equilibrium propagation for comparison.

>>> import jax.random as jr, mupc
>>> network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
>>> mupc.theory.condition_number(network).definite
'positive definite'

Results are numpy arrays in float64, whatever JAX's own default is. Only `equilibrium`, which is inference, returns JAX
arrays in the precision of the weights.
"""

from ._condition import CONDITION_METHODS, Condition, condition_number
from ._equilibrium import equilibrium, equilibrium_energy, equilibrium_gradients, loss_energy_ratio, rescaling
from ._equilibrium_propagation import ep_energy, ep_gradient, ep_hessian, ep_solution
from ._forward import forward_sizes
from ._hessian import HessianBlocks, activity_hessian, hessian_blocks, is_quadratic
from ._landscape import Landscape, descent_path, landscape
from ._laws import Law, marchenko_pastur, semicircle
from ._spectrum import DENSE_LIMIT, Lanczos, Spectrum, spectrum
from ._theorems import BackpropLimit, Convexity, FreeOutput, backprop_limit, convexity, free_output

__all__ = [
    "BackpropLimit",
    "Condition",
    "Convexity",
    "FreeOutput",
    "HessianBlocks",
    "Lanczos",
    "Landscape",
    "Law",
    "Spectrum",
    "activity_hessian",
    "backprop_limit",
    "condition_number",
    "convexity",
    "descent_path",
    "ep_energy",
    "ep_gradient",
    "ep_hessian",
    "ep_solution",
    "equilibrium",
    "equilibrium_energy",
    "equilibrium_gradients",
    "forward_sizes",
    "free_output",
    "hessian_blocks",
    "is_quadratic",
    "landscape",
    "loss_energy_ratio",
    "marchenko_pastur",
    "rescaling",
    "semicircle",
    "spectrum",
]

"""The paper's theory: activity Hessians, their condition numbers and spectra, and the equilibrium of linear networks in
closed form; its theorems as checks of a network; energy landscapes; equilibrium propagation, for comparison; and the
limiting spectra of random matrices.

>>> import jax.random as jr, mupc
>>> network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
>>> mupc.theory.condition_number(network).definite
'positive definite'

Results are numpy arrays in float64, whatever JAX's own default is. Only `equilibrium`, which is inference, returns JAX
arrays in the precision of the weights.
"""

from ._condition import CONDITION_METHODS as CONDITION_METHODS
from ._condition import Condition as Condition
from ._condition import condition_number as condition_number
from ._equilibrium import equilibrium as equilibrium
from ._equilibrium import equilibrium_energy as equilibrium_energy
from ._equilibrium import equilibrium_gradients as equilibrium_gradients
from ._equilibrium import loss_energy_ratio as loss_energy_ratio
from ._equilibrium import rescaling as rescaling
from ._equilibrium_propagation import ep_energy as ep_energy
from ._equilibrium_propagation import ep_gradient as ep_gradient
from ._equilibrium_propagation import ep_hessian as ep_hessian
from ._equilibrium_propagation import ep_solution as ep_solution
from ._forward import forward_sizes as forward_sizes
from ._hessian import HessianBlocks as HessianBlocks
from ._hessian import activity_hessian as activity_hessian
from ._hessian import hessian_blocks as hessian_blocks
from ._hessian import is_quadratic as is_quadratic
from ._landscape import Landscape as Landscape
from ._landscape import descent_path as descent_path
from ._landscape import landscape as landscape
from ._laws import Law as Law
from ._laws import marchenko_pastur as marchenko_pastur
from ._laws import semicircle as semicircle
from ._spectrum import DENSE_LIMIT as DENSE_LIMIT
from ._spectrum import Lanczos as Lanczos
from ._spectrum import Spectrum as Spectrum
from ._spectrum import spectrum as spectrum
from ._theorems import BackpropLimit as BackpropLimit
from ._theorems import Convexity as Convexity
from ._theorems import FreeOutput as FreeOutput
from ._theorems import backprop_limit as backprop_limit
from ._theorems import convexity as convexity
from ._theorems import free_output as free_output

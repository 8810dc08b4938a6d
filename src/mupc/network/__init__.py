"""Describe networks: layers, activations, parameterisations, number formats, the residual MLP, and files of it."""

from . import models, nodes
from ._abstract import AbstractNetwork, WeightRole
from ._activation import ACTIVATIONS, OWN, Activation, AnyActivation, resolve_activation
from ._backend import Backend, backend
from ._chain import Chain, Latents, Recipe
from ._coerce import as_floating, as_inputs, check_key, check_network
from ._layer import Dense
from ._mesh import (
    DATA,
    LAYERS,
    RUNS,
    as_mesh,
    axis_size,
    axis_sizes,
    check_rows,
    constrain,
    fetch,
    make_mesh,
    put,
    size_of,
    using,
)
from ._mlp import Network, forward
from ._parameterisation import PARAMETERISATIONS, Multipliers
from ._parts import Latent, Stack, apply, join, pull, push, split
from ._precision import POLICIES, Precision, resolve_precision
from ._rate_scales import BaseSize, LayerScale
from ._recurrence import at_bottom, layer_at, on_top, recurrence, returned, shifted_down, skipped
from ._saved import (
    check_own_function,
    describe_network,
    network_notes,
    network_of_arrays,
    read_network,
    write_network,
)
from ._spread import check_layers, put_spread, spread, whole
from ._types import Activities, Elementwise, Inputs, Outputs, PRNGKeyArray, Real, Rows, Scalar

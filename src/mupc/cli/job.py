"""Names that other commands still import from here."""

from .building import build as build
from .building import check_training as check_training
from .building import load_data as load_data
from .building import make_energy as make_energy
from .building import network_options as network_options
from .building import number_format as number_format
from .building import training_options as training_options
from .trained_model import CHECKPOINT as CHECKPOINT

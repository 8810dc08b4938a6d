"""The command line, `mupc`: one module for each command, and the runner that they share."""

from .runner import FAILURE as FAILURE
from .runner import INTERRUPTED as INTERRUPTED
from .runner import USAGE_ERROR as USAGE_ERROR
from .runner import main as main

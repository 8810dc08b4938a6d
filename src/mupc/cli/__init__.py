"""Run the command line, `mupc`: one module for each command, and the runner that they share."""

from .runner import FAILURE, INTERRUPTED, USAGE_ERROR, main

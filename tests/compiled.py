"""Which programs JAX compiles."""

import contextlib
import logging

import jax


@contextlib.contextmanager
def compilations(name):
    """Collect a line for each program compiled inside whose name contains `name`. Read it after the end."""
    seen, lines = [], []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())
    logging.getLogger("jax").addHandler(handler)
    try:
        with jax.log_compiles():
            yield lines
    finally:
        logging.getLogger("jax").removeHandler(handler)
        lines += [line for line in seen if line.startswith("Finished XLA compilation") and name in line]

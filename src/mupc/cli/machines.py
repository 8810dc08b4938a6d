"""Connect the processes of one run, before JAX looks for devices."""

import os
import socket
import time

from ..io import checks
from .flags import MachineFlags

SLURM_TASKS, SLURM_TASK = "SLURM_NTASKS", "SLURM_PROCID"
HEARTBEAT = 30
"""Seconds after which the others end when a process has died without a word."""


def connect(flags: MachineFlags) -> None:
    """Connect to the other processes of a run, if the flags or SLURM say that there are any."""
    given = (flags.coordinator, flags.processes, flags.process_id)
    tasks = os.environ.get(SLURM_TASKS, "1")
    if all(value is None for value in given):
        if flags.devices is not None and tasks.isdecimal() and int(tasks) > 1 and SLURM_TASK in os.environ:
            _initialise(flags)
        return
    for name in ("coordinator", "processes", "process_id"):
        if getattr(flags, name) is None:
            cure = "Give {coordinator}, {processes} and {process_id} together."
            raise checks.ArgumentError(name, "is missing, and the other processes are not known without it.", cure)
    processes = checks.integer("processes", flags.processes, 1)
    if not 0 <= checks.integer("process_id", flags.process_id, 0) < processes:
        raise checks.ArgumentError("process_id", f"= {flags.process_id} is not one of {processes}.", "Count from 0.")
    host, _, port = str(flags.coordinator).rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 2**16):
        raise checks.ArgumentError("coordinator", f"= {flags.coordinator} is not HOST:PORT.", "Write node1:1234.")
    if flags.process_id:
        _await(host, int(port), checks.integer("wait", flags.wait, 1))
    _initialise(flags)


def _await(host: str, port: int, seconds: int) -> None:
    """Wait until process 0 listens: JAX itself would end in a message of many lines."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, port), timeout=max(0.1, end - time.monotonic())).close()
            return
        except OSError as error:
            if time.monotonic() + 0.2 > end:
                cure = "Start process 0 there, open the port, or {wait} longer."
                why = error.strerror or "no answer"
                wrong = f"= {host}:{port} did not answer within {seconds} s ({why})."
                raise checks.ArgumentError("coordinator", wrong, cure) from None
            time.sleep(0.2)


def _initialise(flags: MachineFlags) -> None:
    import jax

    try:
        jax.distributed.initialize(
            flags.coordinator,
            flags.processes,
            flags.process_id,
            initialization_timeout=flags.wait,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=HEARTBEAT,
        )
    except RuntimeError as error:
        wanted = flags.processes or os.environ.get(SLURM_TASKS)
        reason = " ".join(str(error).split())[:100]
        wrong = f"= {wanted} did not all start within {flags.wait} s ({reason})."
        raise checks.ArgumentError("processes", wrong, "Start the others, or {wait} longer.") from None

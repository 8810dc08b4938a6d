"""The database of a sweep: SQLite for one machine, PostgreSQL for several. One lock keeps workers apart."""

import contextlib
import re
import sqlite3
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.storages import RDBStorage

from ..io import checks

LOCK_TIMEOUT = 120
"""Seconds to wait for another process that holds a lock. Locks are held for moments only."""
CONNECT_TIMEOUT = 10
CURE = "Use sqlite:///FILE, or postgresql://USER@HOST:PORT/DATABASE."


class SweepDatabase:
    """Where the trials of sweeps are kept. `shown` is the address without its password.

    Optuna gives out single trials and, on SQLite, may give one to two workers at once, because SQLite does not have row
    locks. Workers therefore take, return and hand over cells under `lock`, which ends with the process that holds it.

    **Arguments:** `sqlite:///FILE` or `postgresql://USER@HOST:PORT/DATABASE`.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = sqlalchemy.make_url(url)
        except (sqlalchemy.exc.ArgumentError, ValueError):  # ValueError: a port that is not a number
            hidden = re.sub(r"(//[^:@]*):.*@", r"\1:***@", url)
            raise checks.ArgumentError("storage", f"{checks.literal(hidden)} is not an address.", CURE) from None
        backend = {"postgres": "postgresql"}.get(parsed.get_backend_name(), parsed.get_backend_name())
        if backend not in ("sqlite", "postgresql"):
            shown = checks.literal(parsed.render_as_string())
            raise checks.ArgumentError("storage", f"{shown} is not a kind of database that works here.", CURE)
        self.file = Path(parsed.database or "") if backend == "sqlite" else None
        if self.file is not None and parsed.database in (None, "", ":memory:"):
            wrong = "sqlite:// does not name a file, so workers could not share it."
            raise checks.ArgumentError("storage", wrong, "Use sqlite:///FILE.")
        self.url = parsed.set(drivername="postgresql+psycopg") if backend == "postgresql" else parsed
        self.shown = self.url.set(drivername=backend).render_as_string(hide_password=True)
        self._options: dict[str, Any] = {"connect_args": {"timeout": LOCK_TIMEOUT}}
        if backend == "postgresql":  # heartbeats are compared as local times, so every session needs one time zone
            connect = {"connect_timeout": CONNECT_TIMEOUT, "options": "-c timezone=UTC"}
            self._options = {"connect_args": connect, "pool_pre_ping": True}
        self._engine: sqlalchemy.Engine | None = None

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep all other processes out of the context, and turn errors of the database into one line."""
        try:
            with self._locked(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Optuna calls heartbeats experimental, and expects its own loop
                yield
        except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, sqlite3.Error) as error:
            raise ConnectionError(
                f"the database {self.shown} cannot be used ({_reason(error)}). Check that it exists and can be "
                "written, or give another address. Finished cells are kept."
            ) from error

    def open(self) -> RDBStorage:
        """Return Optuna's view of the database, and create its tables if need be. Call it under the lock."""
        return RDBStorage(self.url.render_as_string(hide_password=False), engine_kwargs=dict(self._options))

    def close(self) -> None:
        """End the connection that the lock of PostgreSQL needs."""
        if self._engine is not None:
            self._engine.dispose()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        if self.file is not None:  # a file of its own: Optuna's transactions lock the file of the trials
            file = sqlite3.connect(f"{self.file}.lock", timeout=LOCK_TIMEOUT, isolation_level=None)
            with contextlib.closing(file) as lock:
                lock.execute("BEGIN EXCLUSIVE")
                yield
            return
        try:
            self._engine = self._engine or sqlalchemy.create_engine(self.url, **self._options)
        except ImportError:
            raise ValueError("PostgreSQL needs the package psycopg: pip install 'mupc[postgres]'.") from None
        with self._engine.begin() as connection:
            key = {"key": zlib.crc32(b"mupc sweep")}
            connection.execute(sqlalchemy.text("SELECT pg_advisory_xact_lock(:key)"), key)
            yield


def _reason(error: BaseException) -> str:
    """Return what the driver said, in one line: the end of the chain of causes, without statements and addresses."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].removesuffix(".")[:200] if lines else type(error).__name__

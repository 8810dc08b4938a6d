"""The database that holds a sweep: SQLite for one machine, PostgreSQL for several. One lock keeps workers apart."""

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

PATIENCE = 120
"""Seconds to wait for another process that holds a lock. They are held for moments only."""
CONNECT = 10


class Database:
    """Where trials live. `shown` is the address without a password.

    Optuna gives out single trials and, on SQLite, may give one to two workers at once, because SQLite has no row locks.
    Workers therefore take, return and hand over cells under `lock`, which ends with the process that holds it.

    **Arguments:** `sqlite:///FILE` or `postgresql://USER@HOST:PORT/DATABASE`.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = sqlalchemy.make_url(url)
        except (sqlalchemy.exc.ArgumentError, ValueError):  # the latter of a port that is no number
            hidden = re.sub(r"(//[^:@]*):.*@", r"\1:***@", url)
            raise ValueError(f"--storage {hidden!r} is no address: {_CURE}") from None
        backend = {"postgres": "postgresql"}.get(parsed.get_backend_name(), parsed.get_backend_name())
        if backend not in ("sqlite", "postgresql"):
            raise ValueError(f"--storage {parsed.render_as_string()} is of a kind that is not known: {_CURE}")
        if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
            raise ValueError("--storage sqlite:// names no file, and workers could not share it: use sqlite:///FILE.")
        self.url = parsed.set(drivername="postgresql+psycopg") if backend == "postgresql" else parsed
        self.shown = self.url.set(drivername=backend).render_as_string(hide_password=True)
        self._options: dict[str, Any] = {"connect_args": {"timeout": PATIENCE}}
        if backend == "postgresql":  # heartbeats are compared as local times: let every session mean the same
            connect = {"connect_timeout": CONNECT, "options": "-c timezone=UTC"}
            self._options = {"connect_args": connect, "pool_pre_ping": True}
        self._engine: sqlalchemy.Engine | None = None

    @property
    def absent(self) -> bool:
        """Whether it is a file that is not there, and that opening it would make."""
        return self._file is not None and not self._file.exists()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """A context that only one process at a time is in, and in which troubles of the database become one line."""
        with self._plainly(), self._sqlite_lock() if self._file else self._postgresql_lock(), warnings.catch_warnings():
            # of heartbeats, which are experimental and meant for Optuna's own loop
            warnings.simplefilter("ignore")
            yield

    def close(self) -> None:
        """Ends the connection that the lock of PostgreSQL needs."""
        if self._engine is not None:
            self._engine.dispose()

    def open(self) -> RDBStorage:
        """Optuna's view of the database, whose tables are made if need be. Call it under the lock."""
        try:
            return RDBStorage(self.url.render_as_string(hide_password=False), engine_kwargs=dict(self._options))
        except ImportError:
            raise ValueError("PostgreSQL needs the package psycopg: pip install 'mupc[postgres]'.") from None

    @property
    def _file(self) -> Path | None:
        return Path(str(self.url.database)) if self.url.get_backend_name() == "sqlite" else None

    @contextlib.contextmanager
    def _sqlite_lock(self) -> Iterator[None]:
        """A transaction on a file of its own, since the trials are read and written in transactions of Optuna's."""
        with contextlib.closing(sqlite3.connect(f"{self._file}.lock", timeout=PATIENCE, isolation_level=None)) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            yield

    @contextlib.contextmanager
    def _postgresql_lock(self) -> Iterator[None]:
        if self._engine is None:
            try:
                self._engine = sqlalchemy.create_engine(self.url, **self._options)
            except ImportError:
                raise ValueError("PostgreSQL needs the package psycopg: pip install 'mupc[postgres]'.") from None
        with self._engine.begin() as connection:
            connection.execute(sqlalchemy.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _KEY})
            yield

    @contextlib.contextmanager
    def _plainly(self) -> Iterator[None]:
        try:
            yield
        except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, sqlite3.Error) as error:
            raise ConnectionError(
                f"the database {self.shown} cannot be used ({_reason(error)}): see that it is there and can be "
                "written, or correct --storage; finished cells are kept."
            ) from error


_CURE = "use sqlite:///FILE, or postgresql://USER@HOST:PORT/DATABASE."
_KEY = zlib.crc32(b"mupc sweep")


def _reason(error: BaseException) -> str:
    """What the driver said, in one line: the end of the chain of causes, without statements and addresses."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].removesuffix(".")[:200] if lines else type(error).__name__

"""The parent of `fuzz_worker.py`: send inputs, end what hangs, and check how every input ended."""

import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

FULL = os.environ.get("MUPC_FUZZ") == "full"
PATIENCE = 60 if FULL else 600
"""Seconds until an input counts as one that hangs: many times what the longest takes on a busy machine."""
MOST_MEMORY = 10**9
WORKER = Path(__file__).with_name("fuzz_worker.py")


def fuzz(quick, full):
    """Settings for `quick` inputs, always the same, in the test suite, or `full` new ones in `make fuzz`."""
    return settings(
        max_examples=full if FULL else quick,
        derandomize=not FULL,
        database=None,
        deadline=None,  # the client ends what hangs
        suppress_health_check=list(HealthCheck),
    )


class Fuzzer:
    """Run inputs in another process, whose home, cache and working folder are scratch folders."""

    def __init__(self, scratch):
        self.scratch, self.count, self.process, self.patience = scratch, 0, None, PATIENCE
        for name in ("home", "cache", "work", "tmp", "inputs"):
            (scratch / name).mkdir()
        self.inputs, self.work = scratch / "inputs", scratch / "work"

    def start(self):
        environment = os.environ | {
            "HOME": str(self.scratch / "home"),
            "MUPC_CACHE": str(self.scratch / "cache"),
            "TMPDIR": str(self.scratch / "tmp"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "HTTP_PROXY": "http://127.0.0.1:9",  # nothing listens there: nothing is downloaded
            "HTTPS_PROXY": "http://127.0.0.1:9",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-W", "always", str(WORKER)],
            cwd=self.work,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def ask(self, request):
        if self.process is None:
            self.start()
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], self.patience)
        reply = self.process.stdout.readline() if ready else ""
        self.count += 1
        if not reply:
            self.close()
        assert ready, f"hangs: {request}"
        assert reply, f"kills the process: {request}"
        return json.loads(reply)

    def empty(self):
        for path in self.work.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def folder(self, name, like=None):
        """Return a new folder, or a copy of `like`, in an otherwise empty working folder."""
        self.empty()  # an input may have been given up before it was run
        if like is not None:
            return shutil.copytree(like, self.work / name)
        (self.work / name).mkdir()
        return self.work / name

    def check(self, *request):
        """Run an input and check how it ended; return its exit code and its line. Empty the working folder."""
        before = listing(self.scratch, without=("work", "cache"))
        try:
            reply = self.ask(request)
        finally:
            self.empty()
        code, err = reply["code"], reply["err"]
        assert not reply["trace"], f"{request}\n{reply['trace']}"
        assert code in (0, 1, 2), f"exit code {code}: {request}\n{err}"
        assert "Traceback" not in err and "unexpected " not in err, f"{request}\n{err}"
        checked = code == 1 and "data" in request[1] and "check" in request[1]  # its table says what is wrong
        if code and not checked and not (code == 2 and "For full helptext" in err):  # the parser draws a box
            lines = err.splitlines()
            assert all(line.startswith("mupc") for line in lines), f"{request}\n{err!r}"
            most = len(lines) if request[1][0] == "reproduce" else 1  # a line for each figure
            assert 1 <= len(lines) <= most, f"{request}\n{err!r}"
        assert reply["grown"] < MOST_MEMORY, f"takes {reply['grown']:,} bytes: {request}"
        inside = [str(self.scratch / name) for name in ("work", "cache", "tmp")]
        inside.append(os.environ["JAX_COMPILATION_CACHE_DIR"])  # that of the test suite
        outside = [path for path in reply["touched"] if not any(path.startswith(folder) for folder in inside)]
        assert not outside, f"touches {outside}: {request}"
        assert listing(self.scratch, without=("work", "cache")) == before, f"leaves files behind: {request}"
        return code, err


def listing(folder, without):
    """Return every file below a folder with its size and time."""
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns)
        for part in folder.iterdir()
        if part.name not in without
        for path in part.rglob("*")
    }

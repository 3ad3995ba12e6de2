"""Servers of the tests' own: each in a folder of its own, on a free port, stopped by its id.

PostgreSQL is Debian's (`apt-get install postgresql`), or the one that INTURN_TEST_POSTGRES names: an address without a
schema, whose role may create some. Where there is none, tests are skipped at home and fail with CI=true.
"""

import atexit
import fcntl
import functools
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

GIVEN = os.environ.get("INTURN_TEST_POSTGRES")
CI = os.environ.get("CI") == "true"
PATIENCE = 60
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",  # a crash of the server is tested, not one of the machine
    "max_connections": "200",
    "shared_buffers": "64MB",
    "logging_collector": "off",
}


def binaries() -> Path | None:
    """Where Debian, or somebody else, put the newest server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: float(each.parts[-3]))
    beside = shutil.which("initdb")
    paths = [each.parent for each in found] or ([Path(beside).parent] if beside else [])
    return paths[-1] if paths else None


needs_postgres = pytest.mark.skipif(
    GIVEN is None and binaries() is None and not CI,
    reason="no PostgreSQL here: apt-get install postgresql, or set INTURN_TEST_POSTGRES",
)
needs_own_postgres = pytest.mark.skipif(
    binaries() is None and not CI, reason="no PostgreSQL of our own here: apt-get install postgresql"
)


class PostgresServer:
    """One server, its data and its socket in one folder, which belongs to the user that it runs as."""

    def __init__(self) -> None:
        found = binaries()
        assert found is not None, "no PostgreSQL here: apt-get install postgresql"
        self._bin = found
        self._as: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []}
        if os.geteuid() != 0:
            self._as = {}
        self.folder = Path(tempfile.mkdtemp(prefix="inturn-pg-", dir="/tmp"))  # a short path for a socket
        if self._as:
            shutil.chown(self.folder, "postgres", "postgres")
        self._run("initdb", "-D", "data", "-A", "trust", "-U", "inturn", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        self.port = 0
        self.pid = 0

    @property
    def url(self) -> str:
        return f"postgresql://inturn@127.0.0.1:{self.port}/postgres"

    def start(self, port: int | None = None, **settings: str) -> None:
        """On a free port; tried again when somebody else took it in between."""
        for _ in range(5):
            self.port = port or free_port()
            self.pid = self._started({**SETTINGS, **settings})
            if self._is_ready():
                return
            self.stop(signal.SIGQUIT)
        raise AssertionError((self.folder / "log").read_text())

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: in order, at once. SIGQUIT: as in a crash."""
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, how)
            wait_until(lambda: not _lives(self.pid))

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _started(self, settings: dict[str, str]) -> int:
        options = [f"--{name}={value}" for name, value in {**settings, "port": str(self.port)}.items()]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own
                [str(self._bin / "postgres"), "-D", "data", "-k", str(self.folder), *options],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as,
            )
        process.returncode = 0  # it may outlive this process: whoever leaves last stops it
        return process.pid

    def _is_ready(self) -> bool:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and _lives(self.pid):
            with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=5):
                return True
            time.sleep(0.02)
        return False

    def _run(self, program: str, *args: str) -> None:
        command = [str(self._bin / program), *args]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, timeout=PATIENCE, **self._as)  # noqa: S603


def _lives(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(true: Callable[[], Any], patience: float = PATIENCE) -> None:
    until = time.monotonic() + patience
    while not true():
        assert time.monotonic() < until, "it did not come true in time"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- one server for all workers of a run ------------------------------------------------------------------------------


@functools.cache
def postgres() -> str:
    """The address of this run's server: the first who asks starts it, the last who leaves stops it."""
    if GIVEN is not None:
        return GIVEN
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    note = Path(tempfile.gettempdir()) / f"inturn-tests-{run}.json"
    with _shared(note) as state:
        if not state:
            server = PostgresServer()
            server.start()
            state.update(url=server.url, pid=server.pid, folder=str(server.folder), users=0)
        state["users"] += 1
        url: str = state["url"]
    atexit.register(_leave, note)
    return url


def _leave(note: Path) -> None:
    with _shared(note) as state:
        state["users"] -= 1
        if state["users"] == 0:
            with suppress(ProcessLookupError):
                os.kill(state["pid"], signal.SIGQUIT)
                wait_until(lambda: not _lives(state["pid"]))
            shutil.rmtree(state["folder"], ignore_errors=True)
            note.unlink()


@contextmanager
def _shared(note: Path) -> Iterator[dict[str, Any]]:
    with note.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        state: dict[str, Any] = json.loads(file.read() or "{}")
        yield state
        file.seek(0)
        file.truncate()
        file.write(json.dumps(state))


_names = itertools.count()


def new_schema() -> str:
    """The address of a queue that is not there yet."""
    return f"{postgres()}?schema=t_{uuid.uuid4().hex[:12]}_{next(_names)}"


def drop_schema(url: str) -> None:
    server, _, schema = url.partition("?schema=")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(b"SET client_min_messages = error")
        connection.execute(b"DROP SCHEMA IF EXISTS " + schema.encode() + b" CASCADE")

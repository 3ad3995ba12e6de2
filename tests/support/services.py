"""Servers of the tests' own: each in a folder of its own, on a free port, stopped by its id.

PostgreSQL, Redis, RabbitMQ and libfaketime are Debian's (`apt-get install postgresql redis-server rabbitmq-server
libfaketime`).
INTURN_TEST_POSTGRES may name another PostgreSQL: an address without a schema, whose role may create some. Where there
is none, tests are skipped at home and fail with CI=true.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from inturn.stores import migrate
from waiting import TIMEOUT_SECONDS, wait_until

EXTERNAL_POSTGRES_URL = os.environ.get("INTURN_TEST_POSTGRES")
CI = os.environ.get("CI") == "true"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",  # a crash of the server is tested, not one of the machine
    "max_connections": "200",
    "shared_buffers": "64MB",
    "logging_collector": "off",
}


MAX_FOLDER_LENGTH = 60
"""A socket's path has at most 107 characters."""


def binaries() -> Path | None:
    """Where Debian, or somebody else, put the newest server."""
    result = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    beside = shutil.which("initdb")
    paths = [path.parent for path in result] or ([Path(beside).parent] if beside else [])
    return paths[-1] if paths else None


needs_postgres = pytest.mark.skipif(
    EXTERNAL_POSTGRES_URL is None and binaries() is None and not CI,
    reason="no PostgreSQL here: apt-get install postgresql, or set INTURN_TEST_POSTGRES",
)
needs_own_postgres = pytest.mark.skipif(
    binaries() is None and not CI, reason="no PostgreSQL of our own here: apt-get install postgresql"
)


FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
"""Lets a program see another time than the machine's."""
needs_faketime = pytest.mark.skipif(
    FAKETIME is None and not CI, reason="no libfaketime here: apt-get install libfaketime"
)


def short_folder() -> str:
    """Where the tests' files lie, in memory perhaps, if a socket's path in there is not too long."""
    folder = tempfile.gettempdir()
    return folder if len(folder) <= MAX_FOLDER_LENGTH else "/tmp"  # noqa: S108 - a folder in it is made


class PostgresServer:
    """One server, its data and its socket in one folder, which belongs to the user that it runs as."""

    def __init__(self, empty_data: Path | None = None) -> None:
        path = binaries()
        assert path is not None, "no PostgreSQL here: apt-get install postgresql"
        self._bin = path
        self._run_as: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []}
        if os.geteuid() != 0:
            self._run_as = {}
        self.folder = Path(tempfile.mkdtemp(prefix="inturn-pg-", dir=short_folder()))
        if self._run_as:
            shutil.chown(self.folder, "postgres", "postgres")
        if empty_data is None:
            self._run("initdb", "-D", "data", "-A", "trust", "-U", "inturn", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        else:
            subprocess.run(["cp", "-a", empty_data, self.folder / "data"], check=True)  # noqa: S603, S607 - our own
        self.port = 0
        self.pid = 0

    @property
    def url(self) -> str:
        return f"postgresql://inturn@127.0.0.1:{self.port}/postgres"

    def start(self, port: int | None = None, **settings: str) -> None:
        """On a free port; tried again when somebody else took it in between."""
        for _ in range(5):
            self.port = port or free_port()
            self.pid = self._spawn({**SETTINGS, **settings})
            if self._is_ready():
                return
            self.stop(signal.SIGQUIT)
        raise AssertionError((self.folder / "log").read_text())

    def stop(self, signum: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: in order, at once. SIGQUIT: as in a crash."""
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signum)
            wait_until(lambda: not _is_alive(self.pid))

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _spawn(self, settings: dict[str, str]) -> int:
        options = [f"--{name}={value}" for name, value in {**settings, "port": str(self.port)}.items()]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own
                [str(self._bin / "postgres"), "-D", "data", "-k", str(self.folder), *options],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._run_as,
            )
        process.returncode = 0  # it may outlive this process: whoever leaves last stops it
        return process.pid

    def _is_ready(self) -> bool:
        until = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < until and _is_alive(self.pid):
            with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=5):
                return True
            time.sleep(0.02)
        return False

    def _run(self, program: str, *args: str) -> None:
        command = [str(self._bin / program), *args]
        subprocess.run(  # noqa: S603 - our own
            command, cwd=self.folder, check=True, capture_output=True, timeout=TIMEOUT_SECONDS, **self._run_as
        )


REDIS_DATABASES = 4096
RABBITMQ = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None and not CI, reason="no Redis here: apt-get install redis-server"
)
needs_rabbitmq = pytest.mark.skipif(not RABBITMQ and not CI, reason="no RabbitMQ here: apt-get install rabbitmq-server")


class Server:
    """A server that listens on a free port, with its data and its log in one folder."""

    scheme: str
    hello: bytes
    answer: bytes

    def __init__(self, parent: str = "/tmp") -> None:  # noqa: S108 - the folder in it is its own
        self.folder = Path(tempfile.mkdtemp(prefix=f"inturn-{self.scheme}-", dir=parent))
        self.pids: list[int] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def start(self, port: int | None = None) -> None:
        """Tried again when somebody else took the port in between."""
        for _ in range(5):
            self.port = port or free_port()
            self._start()
            until = time.monotonic() + TIMEOUT_SECONDS
            while time.monotonic() < until and all(map(_is_alive, self.pids)):
                if self._is_ready():
                    return
                time.sleep(0.05)
            self.stop()
        raise AssertionError((self.folder / "log").read_text(errors="replace"))

    def stop(self) -> None:
        stop_groups(self.pids)
        self.pids.clear()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        raise NotImplementedError

    def _run(self, *command: str, **environment: str) -> None:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own
                command,
                cwd=self.folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        process.returncode = 0  # it may outlive this process: whoever leaves last stops it
        self.pids.append(process.pid)

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as talk:
                talk.settimeout(5)
                talk.sendall(self.hello)
                return talk.recv(16).startswith(self.answer)
        except OSError:
            return False


class RedisServer(Server):
    """Keeps nothing on disk unless told so: a crash of the server is tested with what the test gives."""

    scheme = "redis"
    hello = b"PING\r\n"
    answer = b"+PONG"

    def __init__(self, *options: str) -> None:
        super().__init__()
        self._options = options

    def _start(self) -> None:
        program = shutil.which("redis-server")
        assert program is not None, "no Redis here: apt-get install redis-server"
        where = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder))
        self._run(program, *where, "--save", "", "--databases", str(REDIS_DATABASES), *self._options)


class RabbitServer(Server):
    """RabbitMQ with a node, a cookie and a name service of its own: nothing is shared with one of the system."""

    scheme = "amqp"
    hello = b"AMQP\x00\x00\x09\x01"
    answer = b"\x01\x00\x00"

    def _start(self) -> None:
        assert RABBITMQ, "no RabbitMQ here: apt-get install rabbitmq-server"
        names, peers = free_port(), free_port()
        local = {"ERL_EPMD_PORT": str(names), "ERL_EPMD_ADDRESS": "127.0.0.1", "HOME": str(self.folder)}
        for name in ("conf.env", "rabbitmq.conf"):
            (self.folder / name).write_text("")
        (self.folder / "plugins").write_text("[].\n")
        self._run("epmd", "-port", str(names), "-address", "127.0.0.1", **local)
        self._run(
            str(RABBITMQ[-1]),
            **local,
            RABBITMQ_NODENAME=f"inturn{self.port}@localhost",
            RABBITMQ_NODE_PORT=str(self.port),
            RABBITMQ_NODE_IP_ADDRESS="127.0.0.1",
            RABBITMQ_DIST_PORT=str(peers),
            RABBITMQ_MNESIA_BASE=str(self.folder / "data"),
            RABBITMQ_LOG_BASE=str(self.folder / "logs"),
            RABBITMQ_ENABLED_PLUGINS_FILE=str(self.folder / "plugins"),
            RABBITMQ_CONF_ENV_FILE=str(self.folder / "conf.env"),
            RABBITMQ_CONFIG_FILE=str(self.folder / "rabbitmq"),
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=(
                "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none"
            ),  # loopback alone, and no spinning: there are few cores for many
        )


def stop_groups(pids: Sequence[int], signum: int = signal.SIGKILL) -> None:
    """End processes at once, each with whatever it started in its session; their data is thrown away."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.killpg(pid, signum)
    for pid in pids:
        wait_until(lambda: not _is_alive(pid))  # noqa: B023 - called at once


def _is_alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- one server for all workers of a run ------------------------------------------------------------------------------


@functools.cache
def postgres() -> str:
    """The address of this run's PostgreSQL."""
    return EXTERNAL_POSTGRES_URL if EXTERNAL_POSTGRES_URL is not None else _shared_server("pg", _start_postgres)


@functools.cache
def redis() -> str:
    """The address of this run's Redis: each user gets a database of its own from `fresh_redis`."""
    return _shared_server("redis", lambda: _start(RedisServer()))


@functools.cache
def rabbitmq() -> str:
    """The address of this run's RabbitMQ: its users are told apart by their queues."""
    return _shared_server("rabbitmq", lambda: _start(RabbitServer()))


@functools.cache
def empty_postgres_data() -> Path:
    """Data of a server that was never started, made once a run: a copy takes a tenth of an initdb's time."""
    return Path(_shared_server("pg-data", _make_postgres_data))


def _make_postgres_data() -> dict[str, Any]:
    server = PostgresServer()
    return {"url": str(server.folder / "data"), "pids": [], "folder": str(server.folder), "how": signal.SIGQUIT}


def _start_postgres() -> dict[str, Any]:
    server = PostgresServer(empty_postgres_data())
    server.start()
    return {"url": server.url, "pids": [server.pid], "folder": str(server.folder), "how": signal.SIGQUIT}


def _start(server: Server) -> dict[str, Any]:
    server.start()
    return {"url": server.url, "pids": server.pids, "folder": str(server.folder), "how": signal.SIGKILL}


def _shared_server(name: str, start: Callable[[], dict[str, Any]]) -> str:
    """The first who asks starts it, the last who leaves stops it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    note = Path(tempfile.gettempdir()) / f"inturn-tests-{name}-{run}.json"
    with _shared(note) as state:
        if not state:
            state.update(start(), users=0)
        state["users"] += 1
        url: str = state["url"]
    atexit.register(_release_server, note, os.getpid())
    return url


def _release_server(state_file: Path, user: int) -> None:
    if os.getpid() != user:  # a fork of it, which never came
        return
    with _shared(state_file) as state:
        state["users"] -= 1
        if state["users"] == 0:
            stop_groups(state["pids"], state["how"])
            shutil.rmtree(state["folder"], ignore_errors=True)
            state_file.unlink()


@contextmanager
def _shared(state_file: Path) -> Iterator[dict[str, Any]]:
    with state_file.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        state: dict[str, Any] = json.loads(file.read() or "{}")
        yield state
        file.seek(0)
        file.truncate()
        file.write(json.dumps(state))


_names = itertools.count()


def new_schema(*, migrated: bool = True) -> str:
    """The address of an empty queue, or of one that is not there yet."""
    schema = f"t_{uuid.uuid4().hex[:12]}_{next(_names)}"
    url = f"{postgres()}?schema={schema}"
    if migrated and EXTERNAL_POSTGRES_URL is None:
        template, dump = _empty_queue()
        _admin(os.getpid()).execute(dump.replace(template.encode(), schema.encode()))
    elif migrated:
        migrate(url)
    return url


@functools.cache
def _empty_queue() -> tuple[str, bytes]:
    """The name of a queue, and what it has as one batch of SQL: less than half the work of a dozen migrations."""
    url, path = new_schema(migrated=False), binaries()
    assert path is not None
    server, _, schema = url.partition("?schema=")
    migrate(url)
    command = [str(path / "pg_dump"), "--inserts", "--no-owner", "--schema", schema, server]
    dump = subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_SECONDS).stdout  # noqa: S603 - our own
    drop_schema(url)
    return schema, b"\n".join(line for line in dump.splitlines() if not line.startswith(b"\\"))  # psql's commands


@functools.cache
def _admin(process: int) -> psycopg.Connection[Any]:
    """The connection of this process that makes and drops schemas; a fork has its own."""
    connection = psycopg.connect(postgres(), autocommit=True, options="-c client_min_messages=error")
    atexit.register(lambda: connection.close() if os.getpid() == process else None)
    return connection


def fresh_redis() -> str:
    """The address of a database in Redis that nobody else uses."""
    server = redis()
    with socket.create_connection(("127.0.0.1", int(server.rpartition(":")[2])), TIMEOUT_SECONDS) as talk:
        talk.sendall(b"INCR databases\r\n")
        number = int(talk.recv(64)[1:])
    assert number < REDIS_DATABASES
    return f"{server}/{number}"


def drop_schema(url: str) -> None:
    _admin(os.getpid()).execute(b"DROP SCHEMA IF EXISTS " + url.partition("?schema=")[2].encode() + b" CASCADE")

"""A PostgreSQL of the benchmark's own: a folder on the repository's disk, a free port, stopped by its id."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from bench.services import ROOT, free_port, wait_until

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "max_connections": "100",
    "autovacuum": "on",
    "shared_preload_libraries": "pg_stat_statements",
}
"""Everything else is as PostgreSQL comes."""


def _binaries() -> Path:
    result = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    beside = shutil.which("initdb")
    if not result and beside is None:
        sys.exit("bench postgres: needs PostgreSQL (Debian: apt-get install postgresql)")
    return result[-1] if result else Path(str(beside)).parent


@contextmanager
def server() -> Iterator[str]:
    """Its address. It runs as `postgres` where we are root, since it refuses to be root's."""
    binaries = _binaries()
    who: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    usual = Path("/tmp")  # noqa: S108 - a short path for a socket, in a folder of our own
    place = usual if usual.stat().st_dev == ROOT.stat().st_dev else ROOT
    folder = Path(tempfile.mkdtemp(prefix="inturn-bench-", dir=place))
    if who:
        shutil.chown(folder, "postgres", "postgres")
    make = [str(binaries / "initdb"), "-D", "data", "-A", "trust", "-U", "bench", "-E", "UTF8", "--locale=C.UTF-8"]
    subprocess.run(make, cwd=folder, check=True, capture_output=True, **who)  # noqa: S603 - our own
    port = free_port()
    options = [f"--{name}={value}" for name, value in {**SETTINGS, "port": str(port)}.items()]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own
            [str(binaries / "postgres"), "-D", "data", "-k", str(folder), *options],
            cwd=folder, stdout=log, stderr=log, start_new_session=True, **who,
        )  # fmt: skip
    url = f"postgresql://bench@127.0.0.1:{port}/postgres"
    try:
        if not wait_until(lambda: process.poll() is not None or _responds(url), 30) or process.poll() is not None:
            sys.exit(f"PostgreSQL does not start: {(folder / 'log').read_text(errors='replace')[-500:]}")
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _responds(url: str) -> bool:
    with suppress(psycopg.Error), psycopg.connect(url, connect_timeout=2):
        return True
    return False


def server_cpu_seconds(url: str) -> float:
    """CPU seconds that the server's processes have used, those that have ended included."""
    with psycopg.connect(url) as connection:
        own = connection.info.backend_pid
        postmaster = _process_stat(own).parent
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text(encoding="ascii").split()
        used = _process_stat(postmaster).own + _process_stat(postmaster).of_children
        for child in children:
            with suppress(FileNotFoundError):  # it has just ended
                used += _process_stat(int(child)).own
    return used


class _ProcessStat(NamedTuple):
    """The parent of a process, and its CPU seconds and those of children that have ended."""

    parent: int
    own: float
    of_children: float


def _process_stat(pid: int) -> _ProcessStat:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    user, system, ended_user, ended_system = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15])
    return _ProcessStat(int(fields[1]), user + system, ended_user + ended_system)


def database(url: str, name: str) -> str:
    """The address of a new database on the server."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return url.rpartition("/")[0] + f"/{name}"


def drop_database(url: str) -> None:
    """Drop a database that `database` made, with its connections."""
    with psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)".encode())

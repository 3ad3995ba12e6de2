"""`inturn migrate`, `backup` and `doctor`; and how the command line behaves when it is cut off."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from typer.testing import CliRunner

from inturn import cli
from inturn.cli import session
from inturn.queue import Queue
from inturn.store import Discrepancy
from inturn.stores import open_store

Inturn = Callable[..., Any]


def test_a_store_is_made_and_then_up_to_date(inturn: Inturn, tmp_path: Path) -> None:
    assert "Migration done: " in inturn("migrate").stdout
    assert (tmp_path / "inturn.db").exists()
    assert inturn("migrate").stdout == "The store is up to date.\n"
    assert json.loads(inturn("migrate", "--json").stdout) == {"applied": []}


def test_the_migrations_can_be_read_before(inturn: Inturn, tmp_path: Path) -> None:
    done = inturn("migrate", "--print")
    assert "CREATE TABLE" in done.stdout.upper()
    assert list(tmp_path.iterdir()) == []
    assert json.loads(inturn("migrate", "--print", "--json").stdout)["sql"] in done.stdout


def test_a_backup_is_a_queue_and_overwrites_nothing(inturn: Inturn, tmp_path: Path) -> None:
    inturn("submit", "--customer", "acme", "--name", "n")
    assert "copy.db" in inturn("backup", "copy.db").stdout
    assert json.loads(inturn("status", "--store", "copy.db", "--json").stdout)["states"] == {"waiting": 1}
    inturn("submit", "--customer", "acme", "--name", "n")
    refused = inturn("backup", "copy.db")
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    told = json.loads(inturn("backup", "copy.db", "--force", "--json").stdout)
    assert told == {"path": "copy.db", "size": (tmp_path / "copy.db").stat().st_size}
    assert json.loads(inturn("status", "--store", "copy.db", "--json").stdout)["states"] == {"waiting": 2}
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("copy.db.")] == []


@pytest.mark.parametrize(("path", "advice"), [("inturn.db", "itself"), ("no/where.db", "folder")])
def test_a_backup_to_a_wrong_place_is_refused(inturn: Inturn, path: str, advice: str) -> None:
    inturn("migrate")
    done = inturn("backup", path, "--force")
    assert done.returncode == 2
    assert advice in done.stderr


def test_a_backup_does_not_replace_a_queue_in_use(inturn: Inturn, tmp_path: Path) -> None:
    inturn("migrate")
    (tmp_path / "copy.db-wal").write_bytes(b"somebody writes here")
    done = inturn("backup", "copy.db", "--force")
    assert done.returncode == 1
    assert "copy.db-wal" in done.stderr
    assert not (tmp_path / "copy.db").exists()


def test_the_doctor_finds_nothing_wrong(inturn: Inturn) -> None:
    inturn("submit", "--customer", "acme", "--name", "n")
    assert inturn("doctor").stdout.startswith("All counts agree with the documents.\n")
    told = json.loads(inturn("doctor", "--repair", "--json").stdout)
    assert (told["found"], told["left"]) == (0, 0)


@pytest.mark.parametrize(("repair", "code"), [(False, 1), (True, 0)])
def test_the_doctor_tells_what_was_wrong(monkeypatch: pytest.MonkeyPatch, *, repair: bool, code: int) -> None:
    store = open_store("memory://")
    wrong = [Discrepancy("acme", "waiting in level 1", 3, 2)]

    def recount(*, repair: bool) -> tuple[Discrepancy, ...]:
        found = tuple(wrong)
        if repair:
            wrong.clear()
        return found

    monkeypatch.setattr(store, "recount", recount)
    monkeypatch.setattr(session, "open_queue", lambda *_, **__: Queue(store))
    done = CliRunner().invoke(cli.app, ["doctor", *(["--repair"] if repair else []), "--lang", "en"])
    assert done.exit_code == code
    assert "waiting in level 1" in done.stdout
    assert ("set right" in done.stdout) is repair


def test_a_closed_pipe_is_no_drama(inturn: Inturn, environment: dict[str, str], tmp_path: Path) -> None:
    inturn("migrate")
    command = [sys.executable, "-m", "inturn.cli", "check", "acme", "--count", "10000", "--json"]
    with subprocess.Popen(  # noqa: S603 - our own
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == b""


def broken(body: str) -> str:
    """A run of `inturn status` in which the overview does something else."""
    return (
        "import os, signal, sys, inturn.cli as c, inturn.insights as i\n"
        f"i.Insights.overview = lambda self: {body}\n"
        "sys.argv = ['inturn', 'status', '--store', 'memory://']; c.main()"
    )


def python(script: str, folder: Path, environment: dict[str, str]) -> CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_ctrl_c_ends_with_130_and_no_traceback(environment: dict[str, str], tmp_path: Path) -> None:
    done = python(broken("os.kill(os.getpid(), signal.SIGINT) or signal.pause()"), tmp_path, environment)
    assert done.returncode == 128 + signal.SIGINT
    assert "Traceback" not in done.stderr


def test_a_mistake_of_ours_is_told_without_a_traceback(environment: dict[str, str], tmp_path: Path) -> None:
    done = python(broken("1 / 0"), tmp_path, environment)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in python(broken("1 / 0"), tmp_path, environment | {"INTURN_DEBUG": "1"}).stderr


def test_a_terminal_without_our_letters_gets_the_rest(inturn: Inturn) -> None:
    done = inturn("check", "Zażółć", "--lang", "pl", "--store", "memory://", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "Za?" in done.stdout
    assert os.linesep in done.stdout

"""`inturn migrate` and `doctor`; and how the command line behaves when it is cut off."""

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
from inturn.clock import SystemClock, machine_uptime
from inturn.model import NewDocument, RateLimit
from inturn.queue import Queue
from inturn.store_answers import Discrepancy, MaintenanceRecord
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import SECOND

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


def test_the_doctor_finds_nothing_wrong(inturn: Inturn) -> None:
    inturn("submit", "--customer", "acme", "--name", "n")
    assert inturn("doctor").stdout.startswith("All counts agree with the documents.\n")
    reported = json.loads(inturn("doctor", "--repair", "--json").stdout)
    assert (reported["found"], reported["left"]) == (0, 0)


def test_doctor_names_files_that_others_may_read(inturn: Inturn, tmp_path: Path) -> None:
    inturn("submit", "--customer", "acme", "--name", "n")
    assert "chmod" not in inturn("doctor").stdout
    (tmp_path / "inturn.db").chmod(0o644)
    (tmp_path / "inturn.db.blobs").mkdir()
    (tmp_path / "inturn.db.blobs").chmod(0o755)
    done = inturn("doctor")
    assert done.returncode == 0
    assert "inturn.db can be read by others (mode 644). Run chmod 600 inturn.db\n" in done.stdout
    assert "(mode 755). Run chmod 700 inturn.db.blobs\n" in done.stdout
    reported = json.loads(inturn("doctor", "--json").stdout)["wide_files"]
    assert reported[0] == {"path": "inturn.db", "mode": "644", "command": "chmod 600 inturn.db"}
    for item in reported:
        subprocess.run(item["command"].split(), cwd=tmp_path, check=True)  # noqa: S603 - as it was told
    assert json.loads(inturn("doctor", "--json").stdout)["wide_files"] == []


def test_doctor_counts_what_a_clock_ahead_has_set(inturn: Inturn, tmp_path: Path) -> None:
    queue = Queue(open_store(str(tmp_path / "inturn.db")))
    ahead = SystemClock().now() + 365 * 86_400 * SECOND
    queue.change_customer("acme", Operator("anna", ""), rate=RateLimit(1, 60 * SECOND))
    queue.submit("acme", [NewDocument("n")])
    queue.submit("beta", [NewDocument("n", delay=60 * SECOND)], now=ahead)
    queue.claim("w", 1, now=ahead)
    assert "Clock" not in inturn("doctor", "--store", "memory://").stdout
    done = inturn("doctor")
    assert done.returncode == 0
    assert "Clock: Set by a clock ahead of this one: leases 1, delays 1, rates 1." in done.stdout
    assert json.loads(inturn("doctor", "--json").stdout)["ahead"] == {"leases": 1, "delays": 1, "rates": 1}
    queue.close()


def test_a_round_by_a_wrong_clock_deletes_nothing_and_asks_for_force(inturn: Inturn, tmp_path: Path) -> None:
    queue = Queue(open_store(str(tmp_path / "inturn.db")))
    queue.submit("acme", [NewDocument("n")] * 5)
    for claimed in queue.claim("w", 5):
        queue.finish(claimed)
    uptime, now = machine_uptime(), SystemClock().now()
    assert uptime is not None
    # As if the last round had been ten years ago by the clock, and a minute ago by the kernel.
    ten_years, minute = 3_650 * 86_400 * SECOND, 60 * SECOND
    record = MaintenanceRecord(now - ten_years, uptime.boot, uptime.microseconds - minute)
    queue.store.record_maintenance(record)
    done = inturn("maintenance", "--once", "--keep", "0")
    assert done.returncode == 1
    assert "Deleted: documents 0" in done.stdout
    assert "3,650.0 days later" in done.stderr
    assert "5 of 5 ended documents" in done.stderr
    assert "--once --force" in done.stderr
    reported = json.loads(inturn("maintenance", "--once", "--keep", "0", "--json").stderr)
    assert reported["error"] == "retention_refused"
    doctor = inturn("doctor")
    assert doctor.returncode == 1
    assert "took 5 of 5 finished documents for too old" in doctor.stdout
    assert "inturn maintenance --once --force" in doctor.stdout
    assert json.loads(inturn("doctor", "--json").stdout)["maintenance"]["old"] == 5
    forced = inturn("maintenance", "--once", "--keep", "0", "--force")
    assert forced.returncode == 0
    assert "Deleted: documents 5" in forced.stdout
    assert inturn("doctor").returncode == 0
    assert inturn("maintenance", "--once").returncode == 0
    queue.close()


def test_exports_are_private(inturn: Inturn, tmp_path: Path) -> None:
    queue = Queue(open_store(str(tmp_path / "inturn.db")))
    (receipt,) = queue.submit("acme", [NewDocument("n")])
    for claimed in queue.claim("w", 1):
        queue.finish(claimed, {"text": "private"})
    queue.close()
    assert inturn("simulate", "--replay", "--export", "history.csv", "--html", "page.html").returncode == 0
    assert inturn("result", receipt.id, "--out", "result.json").returncode == 0
    written = [tmp_path / name for name in ("history.csv", "page.html", "result.json")]
    assert [path.stat().st_mode & 0o777 for path in written] == [0o600] * 3


@pytest.mark.parametrize(("repair", "code"), [(False, 1), (True, 0)])
def test_the_doctor_tells_what_was_wrong(monkeypatch: pytest.MonkeyPatch, *, repair: bool, code: int) -> None:
    store = open_store("memory://")
    error = [Discrepancy("acme", "waiting in level 1", 3, 2)]

    def recount(*, repair: bool) -> tuple[Discrepancy, ...]:
        discrepancies = tuple(error)
        if repair:
            error.clear()
        return discrepancies

    monkeypatch.setattr(store, "recount", recount)
    monkeypatch.setattr(session, "open_queue", lambda *_, **__: Queue(store))
    done = CliRunner().invoke(cli.app, ["doctor", *(["--repair"] if repair else []), "--lang", "en"])
    assert done.exit_code == code
    assert "waiting in level 1" in done.stdout
    assert ("corrected" in done.stdout) is repair


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


def test_a_terminal_without_our_letters_gets_the_rest(inturn_alone: Inturn) -> None:
    done = inturn_alone("check", "Zażółć", "--lang", "pl", "--store", "memory://", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "Za?" in done.stdout
    assert os.linesep in done.stdout

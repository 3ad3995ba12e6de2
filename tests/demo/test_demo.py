"""The demo as people run it: it ends by itself, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo import run
from demo.processes import DemoError, Workers
from demo.run import EXIT_INTERRUPTED, main
from demo.timings import first_come_waits
from demo.workload import CUSTOMERS
from waiting import wait_until

FEW = "16"


def left_behind(mark: Path) -> list[str]:
    """Processes whose command names something in this folder: workers do, and so do their children."""
    result = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(mark) in said:
            result.append(said)
    return result


def test_it_ends_by_itself_with_a_table_a_chart_and_a_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, path = tmp_path / "demo", tmp_path / "run.json"
    assert main(["--documents", FEW, "--folder", str(folder), "--json", str(path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("the page: http://127.0.0.1:")
    assert f"{FEW} documents done" in said
    assert "every SHA-256 matches" in said
    assert all(name in said for name in CUSTOMERS)
    assert str(folder / "waits.svg") in said
    ET.parse(folder / "waits.svg")  # noqa: S314 - our own
    documents = json.loads(path.read_text())["documents"]
    assert len(documents) == int(FEW)
    pairs = [(document["arrival"], document["service"]) for document in documents]
    assert [document["wait_first_come"] for document in documents] == first_come_waits(pairs, 2)
    assert left_behind(folder) == []


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["--folder", str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_what_is_wrong_is_told_and_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "run_demo", lambda *_: run.require_no_problems(["a.pdf: its result is empty"]))
    assert main(["--folder", str(tmp_path)]) == 1
    assert "not as it must be:\n  a.pdf: its result is empty" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "11", "-5", "many", "10001"])
def test_a_number_of_documents_that_makes_no_sense(number: str) -> None:
    with pytest.raises(SystemExit):
        main([f"--documents={number}"])


@contextmanager
def started(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A demo under way: its workers process documents, and will not be done for a while."""
    (folder / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder / "tmp")}
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-u", "-m", "demo", "--documents", "250", "--chart", str(folder / "waits.svg")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    with process:
        try:
            assert process.stdout is not None
            assert any(" done, " in line for line in process.stdout)
            assert len(left_behind(folder / "tmp")) >= 2
            yield process
        finally:
            process.kill()


def test_told_to_end_it_takes_its_workers_and_its_folder_along(tmp_path: Path) -> None:
    """A Ctrl-C does the same: `test_stays` presses it."""
    with started(tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate()
    assert process.returncode == EXIT_INTERRUPTED
    assert "stopped" in said
    assert "Traceback" not in said
    assert left_behind(tmp_path / "tmp") == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_killed_it_leaves_no_process_either(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        process.kill()
    wait_until(lambda: not left_behind(tmp_path / "tmp"))


def test_a_worker_that_cannot_work_is_told(tmp_path: Path) -> None:
    store = tmp_path / "inturn.db"
    store.write_text("this is no database, and long enough for it to show" * 10)
    workers = Workers(tmp_path, store, tmp_path / "blobs", 1)
    with workers, pytest.raises(DemoError, match="worker-1 ended with status 1"):
        workers.wait_until_started(lambda: 0)
    assert all(process.returncode is not None for process in workers.processes)

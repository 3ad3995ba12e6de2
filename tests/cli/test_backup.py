"""`inturn backup`, `restore`, and what `doctor` says of files, as people run them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import inturn as package

Inturn = Callable[..., Any]


@pytest.fixture
def submitted(inturn_here: Inturn, tmp_path: Path) -> list[str]:
    """Two documents of acme and one of bob, with files; the ids."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(f"the words of {name}")
    result = [
        *inturn_here("submit", "--customer", "acme", "a.txt", "b.txt", "--json").records,
        *inturn_here("submit", "--customer", "bob", "c.txt", "--json").records,
    ]
    return [item["id"] for item in result]


def test_a_backup_is_restored_with_its_files(inturn_here: Inturn, tmp_path: Path, submitted: list[str]) -> None:
    done = inturn_here("backup", "copy")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Backup written: copy (3 documents, 3 files, ")
    looked = inturn_here("status", "--store", "copy/queue.db")
    assert (looked.returncode, "is part of a backup" in looked.stderr) == (1, True)
    moved = inturn_here("move", "--from", "copy/queue.db", "--to", "other.db", "--from-blobs", "inturn.db.blobs")
    assert (moved.returncode, "is part of a backup" in moved.stderr) == (1, True)
    for path in tmp_path.iterdir():
        if path.name.startswith("inturn.db"):
            path.rename(tmp_path / f"gone-{path.name}")
    restored = inturn_here("restore", "copy")
    assert restored.stdout == "3 documents and 3 files restored from copy.\n"
    assert sorted(record["id"] for record in inturn_here("documents", "--json").records) == sorted(submitted)
    assert "The files of all 3 unfinished documents are there." in inturn_here("doctor").stdout
    again = inturn_here("restore", "copy")
    assert again.returncode == 1
    assert "there is a queue at" in again.stderr


@pytest.mark.usefixtures("submitted")
def test_a_backup_overwrites_nothing_unless_told_so(inturn_here: Inturn, tmp_path: Path) -> None:
    assert inturn_here("backup", "copy").returncode == 0
    inturn_here("submit", "--customer", "acme", "--name", "n")
    refused = inturn_here("backup", "copy")
    assert (refused.returncode, "--force" in refused.stderr) == (1, True)
    (reported,) = inturn_here("backup", "copy", "--force", "--json").records
    assert (reported["path"], reported["documents"], reported["files"], reported["missing"]) == ("copy", 4, 3, [])
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("copy")] == ["copy"]


@pytest.mark.usefixtures("submitted")
@pytest.mark.parametrize(
    ("path", "code", "advice"),
    [("inturn.db", 1, "no backup"), ("no/where", 2, "make it first"), ("a.txt", 1, "no backup")],
)
def test_a_backup_to_a_wrong_place_is_refused(inturn_here: Inturn, path: str, code: int, advice: str) -> None:
    done = inturn_here("backup", path, "--force")
    assert (done.returncode, advice in done.stderr) == (code, True)
    assert len(inturn_here("documents", "--json").records) == 3


@pytest.mark.usefixtures("submitted")
def test_a_backup_without_files_asks_for_them_when_restored(inturn_here: Inturn) -> None:
    assert "not in it" in inturn_here("backup", "bare", "--without-blobs").stdout
    refused = inturn_here("restore", "bare", "--store", "new.db")
    assert (refused.returncode, "made without files" in refused.stderr) == (1, True)
    assert inturn_here("status", "--store", "new.db").returncode == 1
    done = inturn_here("restore", "bare", "--store", "new.db", "--blobs", "inturn.db.blobs")
    assert done.returncode == 0, done.stderr
    alone = inturn_here("restore", "bare", "--store", "alone.db", "--without-blobs", "--json").records
    assert alone == [{"path": "bare", "documents": 3, "files": 0, "lost": []}]


@pytest.mark.usefixtures("submitted")
def test_files_are_not_restored_among_others(inturn_here: Inturn) -> None:
    inturn_here("backup", "copy")
    refused = inturn_here("restore", "copy", "--store", "new.db", "--blobs", "inturn.db.blobs")
    assert (refused.returncode, "that is empty" in refused.stderr) == (1, True)
    assert inturn_here("status", "--store", "new.db").returncode == 1


def test_missing_files_are_told_of_by_backup_restore_and_doctor(
    inturn_here: Inturn, tmp_path: Path, submitted: list[str]
) -> None:
    with package.open(str(tmp_path / "inturn.db")) as queue:
        keys = [queue.document(id_).spec.blob or "" for id_ in submitted]
    package.open_blobs(str(tmp_path / "inturn.db.blobs")).delete([keys[0], keys[2]])
    done = inturn_here("backup", "copy")
    assert (done.returncode, "2 files were missing or damaged already" in done.stderr) == (1, True)
    restored = inturn_here("restore", "copy", "--store", "new.db")
    assert (restored.returncode, "2 files are missing or damaged in the backup" in restored.stderr) == (1, True)
    looked = inturn_here("doctor", "--store", "new.db")
    assert looked.returncode == 1
    assert "2 unfinished documents lack their files (acme 1, bob 1)." in looked.stdout
    reported = json.loads(inturn_here("doctor", "--store", "new.db", "--json").stdout)["missing_files"]
    assert reported == {"checked": 3, "customers": {"acme": 1, "bob": 1}, "is_unknown": False, "missing": 2}
    inturn_here("cancel", submitted[0], "--yes", "--store", "new.db")
    inturn_here("cancel", submitted[2], "--yes", "--store", "new.db")
    assert inturn_here("doctor", "--store", "new.db").returncode == 0


def test_the_doctor_looks_at_every_page_of_documents(inturn_here: Inturn, tmp_path: Path) -> None:
    with package.open(str(tmp_path / "inturn.db")) as queue:
        documents = [package.NewDocument("x", blob=f"01900000-0000-7000-8000-{n:012}") for n in range(2_100)]
        queue.submit("acme", documents)
        queue.finish(queue.claim("worker", 1)[0])
    reported = json.loads(inturn_here("doctor", "--json").stdout)["missing_files"]
    assert (reported["checked"], reported["missing"]) == (2_099, 2_099)


def test_a_restore_that_is_killed_is_run_again(
    inturn_here: Inturn, tmp_path: Path, environment: dict[str, str]
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}.txt").write_text(str(number) * 100)
    inturn_here("submit", "--customer", "acme", "many", "--json")
    inturn_here("backup", "copy")
    command = [sys.executable, "-m", "inturn.cli", "restore", "copy", "--store", "new.db"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as killed:  # noqa: S603 - our own
        while not any((tmp_path / "new.db.blobs").glob("[0-9a-f][0-9a-f]/*")):
            assert killed.poll() is None
            time.sleep(0.001)
        os.kill(killed.pid, signal.SIGKILL)
    for use in (("status",), ("submit", "--customer", "x", "--name", "y"), ("migrate",)):
        refused = inturn_here(*use, "--store", "new.db")
        assert (refused.returncode, "run the same inturn restore again" in refused.stderr) == (1, True)
    assert inturn_here("restore", "copy", "--store", "new.db").returncode == 0
    assert inturn_here("doctor", "--store", "new.db").returncode == 0
    assert len(list((tmp_path / "new.db.blobs").glob("[0-9a-f][0-9a-f]/*"))) == 300

"""What workers leave on the disk: nothing, however they end."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from inturn.model import DocumentState
from inturn.sandbox import confinement
from inturn.worker import content
from inturn.worker.scratch import ScratchDir, exceeds_size, remove_abandoned, remove_tree
from worker_harness import ScriptProcess, WorkerHarness, eventually

FAILED, DONE = DocumentState.FAILED, DocumentState.DONE
BOX = confinement.SandboxLimits(scratch_bytes=4 << 20)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_workplace_is_private_and_goes_when_closed(temporary: Path) -> None:
    scratch_dir = ScratchDir()
    scratch_dir.close()
    assert list(temporary.iterdir()) == []
    assert scratch_dir.path.stat().st_mode & 0o777 == 0o700
    (scratch_dir.path / "scratch").mkdir()
    scratch_dir.close()
    assert list(temporary.iterdir()) == []


def test_only_what_nobody_holds_is_cleared(temporary: Path) -> None:
    held, gone = ScratchDir(), temporary / "inturn-worker-gone"
    young, old = temporary / "inturn-worker-young", temporary / "inturn-worker-old"
    link, elsewhere = temporary / "inturn-worker-link", temporary / "elsewhere"
    for folder in (gone, young, old, elsewhere):
        folder.mkdir()
    (gone / "lock").touch()
    (elsewhere / "lock").touch()
    link.symlink_to(elsewhere)
    os.utime(old, (0, 0))
    assert held.path.exists()
    remove_abandoned()
    assert {path.name for path in temporary.iterdir()} == {held.path.name, young.name, link.name, elsewhere.name}
    assert (elsewhere / "lock").exists()
    held.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_what_belongs_to_others_is_left_alone(temporary: Path) -> None:
    theirs = temporary / "inturn-worker-theirs"
    theirs.mkdir()
    (theirs / "lock").touch()
    os.chown(theirs, 1, 1)
    remove_abandoned()
    assert theirs.exists()


def test_a_killed_process_holds_nothing(temporary: Path) -> None:
    program = "from inturn.worker.scratch import ScratchDir; d = ScratchDir(); print(d.path, flush=True); input()"
    source = str(Path(content.__file__).parents[2])
    with subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-c", program],
        env={"PYTHONPATH": os.pathsep.join([source, *sys.path]), "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        remove_abandoned()
        assert folder.exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    remove_abandoned()
    assert not folder.exists()


def test_a_worker_clears_up_after_one_that_was_killed(
    harness: WorkerHarness, marker_dir: Path, start: Callable[..., ScriptProcess], tmp_path: Path
) -> None:
    harness.submit("sleep", content=b"a secret", place=str(marker_dir), max_attempts=9)
    first = start("work", harness.folder, "{}")
    eventually(lambda: any(marker_dir.iterdir()))
    left = set((tmp_path / "scratch").glob("inturn-worker-*"))
    assert left
    first.kill()
    start("work", harness.folder, "{}")
    eventually(lambda: not left & set((tmp_path / "scratch").glob("inturn-worker-*")))


def test_bytes_and_entries_are_counted_as_far_as_needed(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(b"x" * 100_000)
    (deep / "link").symlink_to("/")
    assert exceeds_size(tmp_path, 99_000, 100)
    assert not exceeds_size(tmp_path, 200_000, 100)
    assert exceeds_size(tmp_path, 200_000, 3)
    assert not exceeds_size(tmp_path / "missing", 0, 0)


def test_what_lies_too_deep_for_a_path_cannot_hide(tmp_path: Path) -> None:
    top, at = tmp_path / "top", os.open(tmp_path, os.O_RDONLY)
    top.mkdir()
    folder = os.open("top", os.O_RDONLY, dir_fd=at)
    os.close(at)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=folder)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)
    assert exceeds_size(top, 1 << 30, 1_000)
    shutil.rmtree(top)


@pytest.mark.parametrize(("files", "size"), [(3, 2 << 20), (10_001, 0)])
def test_a_boxed_child_cannot_fill_the_disk(harness: WorkerHarness, marker_dir: Path, files: int, size: int) -> None:
    bad = harness.submit("write_much", content=b"x", files=files, size=size, place=str(marker_dir), max_attempts=1)
    good = harness.submit("echo", "other")
    harness.run_until_empty(box=BOX)
    assert "it wrote more than 4 MB or 10,000 files to disk" in (harness.queue.document(bad).error or "")
    assert harness.state(good) is DONE


def test_the_files_of_a_result_are_limited_together(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAX_FILES_BYTES", 3 << 20)
    files = {f"{n}.bin": 1 << 20 for n in range(4)}
    bad = harness.submit("make_files", files=files, max_attempts=3)
    good = harness.submit("make_files", files=dict(list(files.items())[:3]))
    harness.run_until_empty()
    assert harness.state(good) is DONE
    assert harness.state(bad) is FAILED
    assert "a result's files may have 3 MB together" in (harness.queue.document(bad).error or "")


def test_a_result_that_is_far_too_long_is_told_as_such(harness: WorkerHarness) -> None:
    bad = harness.submit("talk_long", max_attempts=1)
    harness.run_until_empty(slots=1)
    error = harness.queue.document(bad).error or ""
    assert "its result has more than 64 MB" in error
    assert "out of memory" not in error


def test_what_a_child_nested_deeper_than_the_stack_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d", dir_fd=folder)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        deeper = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.mkdir("closed", 0, dir_fd=folder)
    os.symlink("/", "link", dir_fd=folder)
    os.close(folder)
    remove_tree(top)
    assert not top.exists()
    remove_tree(top)


def test_a_boxed_child_that_nests_folders_without_end_takes_no_worker_down(harness: WorkerHarness) -> None:
    bad, good = harness.submit("nest", max_attempts=1), harness.submit("echo", "other")
    harness.run_until_empty(box=confinement.SandboxLimits(), slots=1)
    assert harness.state(bad) in {DONE, FAILED}
    assert harness.state(good) is DONE


def test_what_vanishes_meanwhile_stops_no_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "top"
    (top / "a" / "b" / "c").mkdir(parents=True)
    for path in (top / "0", top / "file", top / "a" / "0", top / "a" / "file", top / "a" / "b" / "c" / "0"):
        path.touch()
    unlink = os.unlink

    def vanishing(name: str, *, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        if name == "0":
            raise FileNotFoundError(name)

    monkeypatch.setattr(os, "unlink", vanishing)
    remove_tree(top)
    assert not top.exists()

"""From inside a real box: what must be refused is refused, what must work works."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from inturn.sandbox import confinement, landlock, privileges, seccomp
from sandbox_child import RunInSandbox

OUTSIDE = Path(__file__).resolve()


@pytest.mark.parametrize(
    ("what", "argument"),
    [
        ("read", "/etc/passwd"),
        ("read", "/proc/self/environ"),
        ("list", "/"),
        ("read", OUTSIDE),
        ("write", OUTSIDE.with_name("written-from-inside")),
        ("write", "/dev/shm/written-from-inside"),  # noqa: S108 - it must not be written
        ("tcp", None),
        ("udp", None),
        ("local", None),
        ("bind", None),
        ("shell", None),
        ("exec", None),
        ("fork", None),
        ("signal", None),
        ("trace", None),
    ],
)
def test_it_is_refused(run_in_sandbox: RunInSandbox, what: str, argument: object) -> None:
    child_result = run_in_sandbox(what, *([] if argument is None else [argument]))
    assert child_result.lines == [{"refused": "PermissionError"}], child_result.errors


def test_memory_ends_at_its_limit(run_in_sandbox: RunInSandbox) -> None:
    assert run_in_sandbox("fill").lines == [{"refused": "MemoryError"}]


def test_files_end_at_their_limits(run_in_sandbox: RunInSandbox) -> None:
    assert run_in_sandbox("big_file", "SCRATCH").lines == [{"refused": "OSError"}]
    assert run_in_sandbox("many_files", "SCRATCH").lines == [{"refused": "OSError"}]


def test_an_endless_loop_ends_by_itself(run_in_sandbox: RunInSandbox) -> None:
    assert run_in_sandbox("spin", cpu=0).code == -signal.SIGXCPU


def test_each_document_has_its_own_seconds(run_in_sandbox: RunInSandbox) -> None:
    assert run_in_sandbox("twice", cpu=1).lines == ["done", "did it"]


def test_scratch_is_writable_and_libraries_are_readable(run_in_sandbox: RunInSandbox) -> None:
    assert run_in_sandbox("write", "SCRATCH/mine").lines == ["did it"]
    assert run_in_sandbox("read", json.__file__).lines == ["did it"]


def test_it_says_what_holds(run_in_sandbox: RunInSandbox) -> None:
    (said, _) = run_in_sandbox("says").lines
    assert re.match(r"limits, Landlock \d+, seccomp(, a user of its own.*)?$", said)
    assert ("a user of its own" in said) == (os.geteuid() == 0)


def test_a_second_thread_is_too_many(tmp_path: Path) -> None:
    wait = threading.Event()
    thread = threading.Thread(target=wait.wait)
    thread.start()
    try:
        with pytest.raises(confinement.SandboxError, match="before the first thread"):
            confinement.enter_sandbox(confinement.SandboxLimits(), [], tmp_path)
    finally:
        wait.set()
        thread.join()


def test_what_the_kernel_lacks_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 0)
    monkeypatch.setattr(seccomp.platform, "machine", lambda: "riscv64")
    assert landlock.restrict([], tmp_path) == landlock.LandlockStatus()
    assert not seccomp.restrict()


@pytest.mark.parametrize("known", [1, 2, 3, 4, 5, 6, 7, 12])
def test_every_version_gets_the_fields_it_knows(known: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def call(number: int, *arguments: object) -> int:
        if number == landlock.CREATE_RULESET:
            asked.append((number, int(str(arguments[1]))))
            return os.open(tmp_path, os.O_PATH)
        return 0

    monkeypatch.setattr(landlock, "version", lambda: known)
    monkeypatch.setattr(landlock, "_call", call)
    held = landlock.restrict([tmp_path, OUTSIDE], tmp_path)
    assert asked[0][1] == (8 if known < 4 else 16 if known < 6 else 24)
    assert (held.version, held.tcp, held.signals) == (known, known >= 4, known >= 6)


@pytest.mark.parametrize(
    ("version", "calls", "user", "words"),
    [
        (0, True, True, "Landlock (Linux 5.13); without it a parser that was taken over could read the store"),
        (2, True, True, "Landlock 3 (Linux 6.2); without it"),
        (7, False, True, "seccomp (Linux 3.17); without it a parser that was taken over could "),
        (7, True, False, "a user of its own (any, if the worker is root); without it"),
    ],
)
def test_a_missing_layer_is_named_and_refused_if_insisted_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, words: str, *, calls: bool, user: bool
) -> None:
    monkeypatch.setattr(confinement, "_prctl", lambda *_: None)
    monkeypatch.setattr(confinement, "_running_threads", lambda: 1)
    monkeypatch.setattr(confinement, "_set_rlimits", lambda _: None)
    monkeypatch.setattr(privileges, "is_root", lambda: False)
    monkeypatch.setattr(privileges, "drop", lambda *_, **__: user)
    monkeypatch.setattr(landlock, "restrict", lambda *_: landlock.LandlockStatus(version, files=version > 0))
    monkeypatch.setattr(seccomp, "restrict", lambda: calls)
    with pytest.raises(confinement.SandboxError, match=f"lacks {re.escape(words)}"):
        confinement.enter_sandbox(confinement.SandboxLimits(), [], tmp_path, strict=True)
    held = confinement.enter_sandbox(confinement.SandboxLimits(), [], tmp_path)
    assert f"; missing: {words}" in str(held)


def test_needed_paths_hold_no_secrets_and_no_duplicates() -> None:
    paths = confinement.needed_paths()
    assert not {Path("/"), Path("/etc"), Path("/home"), Path("/root"), Path("/tmp"), Path("/var")} & set(paths)  # noqa: S108
    assert not any(one != other and one.is_relative_to(other) for one in paths for other in paths)


def test_the_environment_is_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_KEY", "secret")
    (tmp_path / "eng.traineddata").touch()
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    reported = confinement.child_environment(tmp_path)
    assert "INTURN_KEY" not in reported
    assert reported["MALLOC_ARENA_MAX"] == "2"
    assert reported["TMPDIR"] == reported["TESSDATA_PREFIX"] == str(tmp_path)


def test_it_refuses_to_begin_if_what_is_protected_can_be_opened_from_inside(tmp_path: Path) -> None:
    """Whatever the paths say: a mount or a mistake may lead there."""
    scratch, store = tmp_path / "scratch", tmp_path / "store.db"
    scratch.mkdir()
    store.touch(mode=0o644)
    program = f"""
from pathlib import Path
from inturn.sandbox import confinement
tmp = Path({str(tmp_path)!r})
try:
    readable = [*confinement.needed_paths(), tmp]
    confinement.enter_sandbox(
        confinement.SandboxLimits(), readable, tmp / "scratch", protected=[tmp / "store.db"]
    )
except confinement.SandboxError as error:
    print(error)
"""
    source = str(Path(confinement.__file__).parents[2])
    done = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-c", program], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"the sandbox does not keep {store.resolve()} closed: move it to a folder of its own\n"

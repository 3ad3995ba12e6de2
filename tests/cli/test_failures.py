"""Documents that failed, as the command line tells of them: in lists, with their traces, with advice that fits."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import forked_cli
import inturn as package

Inturn = Callable[..., Any]
TRACE = 'ValueError: no total\n\n  File "/srv/bad.py", line 9, in process\n    return total(document)'
REASON = f"there is no total in it, {'and so on ' * 20}"


class Failed(NamedTuple):
    """The ids of a document that was rejected, one that used up its attempts, and one that will be tried again."""

    rejected: str
    broken: str
    delayed: str


@pytest.fixture
def failed(inturn_here: Inturn, tmp_path: Path) -> Failed:
    ids = [
        inturn_here("submit", "--customer", "acme", "--name", name, "--json").records[0]["id"]
        for name in ("rejected", "broken", "delayed")
    ]
    with package.open(str(tmp_path / "inturn.db")) as queue:
        claimed = {claim.document.id: claim for claim in queue.claim("worker", 3)}
        queue.fail(claimed[ids[0]], REASON, final=True)
        queue.fail(claimed[ids[2]], "no answer", retry_in=10**9)
        queue.fail(claimed[ids[1]], TRACE, retry_in=0)
        for _ in range(2):
            queue.fail(queue.claim("worker", 1)[0], TRACE, retry_in=0)
    return Failed(*ids)


def test_the_reason_stands_in_the_list(inturn_here: Inturn, failed: Failed) -> None:
    listed = inturn_here("documents", "--state", "failed")
    head, *rows = listed.stdout.splitlines()
    assert head.split()[-1] == "Error"
    assert len(rows) == 2
    by_id = {row.split()[0]: " ".join(row.split()) for row in rows}
    assert by_id[failed.broken].endswith("ValueError: no total")
    assert by_id[failed.rejected].endswith(" ".join(REASON.split()))  # nothing is cut in a pipe
    waiting = inturn_here("documents", "--state", "delayed").stdout
    assert "no answer" in waiting
    errors = {record["id"]: record["error"] for record in inturn_here("documents", "--json").records}
    assert errors[failed.broken] == TRACE


def test_a_list_without_failures_has_no_column_for_them(inturn_here: Inturn, tmp_path: Path) -> None:
    inturn_here("submit", "--customer", "acme", "--name", "fine")
    with package.open(str(tmp_path / "inturn.db")) as queue:
        queue.fail(queue.claim("worker", 1)[0], "at first", retry_in=0)
        queue.finish(queue.claim("worker", 1)[0])
    shown = inturn_here("documents").stdout
    assert "Error" not in shown
    assert "at first" not in shown


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.usefixtures("failed")
def test_in_a_terminal_the_reason_is_cut_and_the_ids_are_whole(
    environment: dict[str, str], tmp_path: Path, failed: Failed, width: int
) -> None:
    shown = in_terminal([*("documents", "--state", "failed")], environment, tmp_path, width)
    assert failed.rejected in shown
    assert failed.broken in shown
    assert "no total" in shown
    assert "…" in shown
    assert max(len(line) for line in shown.splitlines()) <= width


def in_terminal(arguments: list[str], environment: dict[str, str], folder: Path, width: int) -> str:
    main, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    command = forked_cli.command(*arguments)
    plain = environment | {"TERM": "xterm", "NO_COLOR": "1", "LANG": "C.UTF-8"}
    with subprocess.Popen(command, cwd=folder, env=plain, stdout=child, stdin=child) as process:  # noqa: S603
        os.close(child)
        parts = []
        while part := _read(main):
            parts.append(part)
        assert process.wait(60) == 0
    os.close(main)
    return re.sub(r"\x1b\[[0-9;]*m", "", b"".join(parts).decode().replace("\r", ""))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # its other end was closed
        return b""


def test_traces_keep_their_line_ends(inturn_here: Inturn, failed: Failed) -> None:
    shown = inturn_here("result", failed.broken)
    assert shown.returncode == 1
    first, *trace = shown.stderr.splitlines()
    assert first == (
        f"Error: document {failed.broken} failed in attempt 3 of 3: ValueError: no total; once the cause is removed,"
        f" try it again: inturn retry {failed.broken}"
    )
    assert trace == TRACE.splitlines()[1:]
    why = inturn_here("why", failed.broken).stdout
    assert TRACE.partition("\n")[2] in why
    assert "\ufffd" not in why + shown.stderr
    (record,) = inturn_here("why", failed.broken, "--json").records
    assert (record["error"], record["attempt"], record["max_attempts"]) == (TRACE, 3, 3)


def test_what_would_move_the_cursor_is_still_taken_out(inturn_here: Inturn, tmp_path: Path) -> None:
    (receipt,) = inturn_here("submit", "--customer", "acme", "--name", "x", "--json").records
    with package.open(str(tmp_path / "inturn.db")) as queue:
        queue.fail(queue.claim("worker", 1)[0], "one\r\x1b[2J\n\ttwo\x07", final=True)
    shown = inturn_here("result", receipt["id"]).stderr + inturn_here("why", receipt["id"]).stdout
    assert not {"\r", "\x1b", "\x07", "\t"} & set(shown)
    assert "\n    two\ufffd" in shown


def test_a_rejected_document_is_not_advised_to_be_tried_again(inturn_here: Inturn, failed: Failed) -> None:
    shown = inturn_here("result", failed.rejected)
    assert shown.returncode == 1
    assert "was rejected in attempt 1 of 3: there is no total in it" in shown.stderr
    assert "another attempt would end the same way" in shown.stderr
    assert "retry" not in shown.stderr


def test_a_worker_logs_each_failed_attempt(inturn: Inturn, inturn_here: Inturn, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from inturn import Reject\n\ndef process(document):\n    raise Reject('no total')\n"
    )
    (receipt,) = inturn_here("submit", "--customer", "acme", "--name", "x", "--json").records
    done = inturn("worker", "--until-empty", "--processor", "mine:process")
    reported = f"document {receipt['id']} of customer acme: attempt 1 of 3 failed, for good: no total"
    assert [line for line in done.stderr.splitlines() if line.endswith(reported)]

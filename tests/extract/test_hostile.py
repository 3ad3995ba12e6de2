"""Every hostile file fails alone, within its limits and with a reason, and the next document is read all the same."""

import re
from pathlib import Path
from typing import Any

import pytest

from demo import make_document
from hostile_files import HOSTILE_FILES, HostileFile
from inturn.worker.pool import LOADER_FAILURE_STATUS
from sandbox_child import RunInSandbox

LEAST = 26
FATAL = tuple(hostile for hostile in HOSTILE_FILES if hostile.may_die)
SURVIVED = tuple(hostile for hostile in HOSTILE_FILES if not hostile.may_die)
GROUPS = 5


def test_there_are_enough_of_them() -> None:
    assert len({hostile.name for hostile in HOSTILE_FILES}) == len(HOSTILE_FILES) >= LEAST


def check(hostile: HostileFile, first: Any, second: Any) -> None:
    """What a child said of a hostile file, and of the document after it."""
    if not (hostile.may_pass and "value" in first):
        assert re.search(hostile.expected_error, first["rejected"]), (hostile.name, first)
    assert make_document("docx", 7).content.title in second["value"]["text"], hostile.name


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """The document that follows a hostile file."""
    path = tmp_path / "next.docx"
    path.write_bytes(make_document("docx", 7).data)
    return path


@pytest.mark.parametrize("group", [SURVIVED[at::GROUPS] for at in range(GROUPS)], ids=range(GROUPS))
def test_a_hostile_file_fails_with_a_reason(
    group: tuple[HostileFile, ...], run_in_sandbox: RunInSandbox, tmp_path: Path, good: Path
) -> None:
    """One child reads them all, each with a document after it."""
    paths = []
    for number, hostile in enumerate(group):
        (tmp_path / str(number)).mkdir()
        bad = tmp_path / str(number) / hostile.name
        bad.write_bytes(hostile.make())
        paths += [bad, good]
    child_result = run_in_sandbox("one", *paths)
    assert len(child_result.lines) == 2 * len(group), (child_result.code, child_result.errors)
    for number, hostile in enumerate(group):
        check(hostile, *child_result.lines[2 * number : 2 * number + 2])


@pytest.mark.parametrize("hostile", FATAL, ids=lambda hostile: hostile.name)
def test_a_file_that_may_kill_its_child_fails_with_a_reason(
    hostile: HostileFile, run_in_sandbox: RunInSandbox, tmp_path: Path, good: Path
) -> None:
    bad = tmp_path / hostile.name
    bad.write_bytes(hostile.make())
    child_result = run_in_sandbox("one", bad, good)
    if child_result.code < 0 or child_result.code == LOADER_FAILURE_STATUS:
        assert not child_result.lines
        return
    check(hostile, *child_result.lines)

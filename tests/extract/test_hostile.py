"""Every hostile file fails alone, within its limits and with a reason, and the next document is read all the same."""

import re
from pathlib import Path

import pytest

from demo import make_document
from hostile_files import HOSTILE_FILES, HostileFile
from inturn.worker.pool import LOADER_FAILURE_STATUS
from sandbox_child import RunInSandbox

LEAST = 26


def test_there_are_enough_of_them() -> None:
    assert len({hostile.name for hostile in HOSTILE_FILES}) == len(HOSTILE_FILES) >= LEAST


@pytest.mark.parametrize("hostile", HOSTILE_FILES, ids=lambda hostile: hostile.name)
def test_a_hostile_file_fails_with_a_reason(hostile: HostileFile, run_in_sandbox: RunInSandbox, tmp_path: Path) -> None:
    bad, good = tmp_path / hostile.name, tmp_path / "next.docx"
    bad.write_bytes(hostile.make())
    good.write_bytes(make_document("docx", 7).data)
    child_result = run_in_sandbox("one", bad, good)
    if hostile.may_die and (child_result.code < 0 or child_result.code == LOADER_FAILURE_STATUS):
        assert not child_result.lines
        return
    first, second = child_result.lines
    if not (hostile.may_pass and "value" in first):
        assert re.search(hostile.expected_error, first["rejected"])
    assert make_document("docx", 7).content.title in second["value"]["text"]

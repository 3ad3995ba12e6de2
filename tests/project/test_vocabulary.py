"""`make lint` keeps words of the old dialect out of names and docstrings."""

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT

SCRIPT = ROOT / "scripts" / "vocabulary.py"


def check(folder: Path, name: str, text: str) -> subprocess.CompletedProcess[str]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, str(SCRIPT), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/a.py", "def on_heard(): ...\n"),
        ("src/a.py", "class CrewMember: ...\n"),
        ("src/a.py", "for each in ():\n    pass\n"),
        ("src/a.py", "try:\n    pass\nexcept OSError as wrong:\n    raise\n"),
        ("src/a.py", "AT_ONCE = 5\n"),
        ("src/a.py", '"""Whoever comes first."""\n'),
        ("src/a.js", "const found = 1;\n"),
    ],
)
def test_words_of_the_old_dialect_are_refused(tmp_path: Path, name: str, text: str) -> None:
    done = check(tmp_path, name, text)
    assert done.returncode == 1
    assert f"{name}:1: " in done.stdout.replace(f"{tmp_path}/", "") or ":3: " in done.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/a.py", 'def claim(document: str) -> str:\n    """Claim each document."""\n    return "nobody"\n'),
        ("src/a.js", '// nobody\nitems.forEach((item) => send("told", item));\n'),
        ("tests/a.py", '"""Nobody waits for ever."""\ndef test_nobody_waits(): ...\n'),
    ],
)
def test_plain_words_texts_and_names_of_tests_pass(tmp_path: Path, name: str, text: str) -> None:
    done = check(tmp_path, name, text)
    assert (done.returncode, done.stdout) == (0, "")

"""`make mutants` takes too long for every change; to see that each mutant has its piece and its tests does not."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MUTANTS: dict[str, Any] = tomllib.loads((ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))
TEST_WORDS = {"runTest"}.union(
    *(
        re.findall(r"\w+", path.read_text(encoding="utf-8"))
        for folder in (ROOT / "tests", ROOT / "src/inturn/testing")
        for path in folder.rglob("*.py")
    )
)
"""Every name in the tests, and in those that a user's own store may be put to."""


@cache
def source(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def problems_of(mutant: dict[str, Any]) -> list[str]:
    places = [item.split("::") for item in mutant["tests"] if item.startswith("tests/")]
    named = [part.partition("[")[0] for _, *parts in places for part in parts]
    problems = {
        "its piece does not stand in the file once": source(mutant["file"]).count(mutant["old"]) != 1,
        "it changes nothing": mutant["new"] == mutant["old"],
        "it has no tests": not places,
        "a file of tests is missing": not all((ROOT / path).exists() for path, *_ in places),
        "a test is missing": not TEST_WORDS.issuperset(named),
    }
    return [words for words, is_so in problems.items() if is_so]


def test_every_mutant_has_its_piece_and_its_tests() -> None:
    """All of them in one test: five hundred would be a tenth of what each process collects."""
    result = {name: problems for name, mutant in MUTANTS.items() if (problems := problems_of(mutant))}
    assert result == {}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"old": "nowhere in this file"}, "its piece does not stand in the file once"),
        ({"tests": []}, "it has no tests"),
        ({"tests": ["tests/nowhere.py"]}, "a file of tests is missing"),
        ({"tests": ["tests/project/test_mutants.py::test_no" + "where"]}, "a test is missing"),
    ],
)
def test_a_mutant_without_them_is_found(change: dict[str, Any], problem: str) -> None:
    assert problems_of(next(iter(MUTANTS.values())) | change) == [problem]

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


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_has_its_piece_and_its_tests(name: str) -> None:
    mutant = MUTANTS[name]
    assert source(mutant["file"]).count(mutant["old"]) == 1
    assert mutant["new"] != mutant["old"]
    places = [item for item in mutant["tests"] if item.startswith("tests/")]
    assert places
    for path, *named in (place.split("::") for place in places):
        assert (ROOT / path).exists(), path
        missing = [part for part in named if part.partition("[")[0] not in TEST_WORDS]
        assert missing == []

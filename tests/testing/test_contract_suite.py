"""The contract suite as authors of stores use it: each test names its guarantee, and a failure shows it."""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from inturn.testing.contract import StoreContract
from inturn.testing.plugin import guarantees

CONFTEST = 'pytest_plugins = ["inturn.testing.plugin"]'
BROKEN_STORE = """
from inturn.stores.memory import MemoryStore
from inturn.testing.contract import StoreContract

class BrokenStore(MemoryStore):
    def now(self):
        return 7

class TestBroken(StoreContract):
    def make_store(self, clock, folder):
        return BrokenStore(clock)
"""


def contract_tests() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the guarantees of each test."""
    for group_name, group in inspect.getmembers(StoreContract, inspect.isclass):
        for name, test in inspect.getmembers(group, inspect.isfunction):
            marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "guarantee"]
            yield f"{group_name}.{name}", tuple(number for mark in marks for number in mark.args)


def test_guarantees_are_read_from_the_store_protocol() -> None:
    last = max(int(number[1:]) for number in guarantees() if number.startswith("S"))
    assert last >= 56
    assert set(guarantees()) == {*(f"A{n}" for n in range(4)), *(f"S{n}" for n in range(1, last + 1))}
    assert guarantees()["S2"] == "check: Creates no lane and no document."
    assert guarantees()["S30"] == "recount: They always agree."
    assert guarantees()["A3"].startswith("every method: Every state change of a document is listed")


def test_every_guarantee_has_a_marked_test() -> None:
    marked = {number for _, numbers in contract_tests() for number in numbers}
    assert marked == set(guarantees())


def test_every_test_of_the_contract_is_marked() -> None:
    assert [name for name, numbers in contract_tests() if not numbers] == []


def test_failure_of_a_store_names_method_and_guarantee(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_broken.py").write_text(BROKEN_STORE, encoding="utf-8")
    options = ["-q", "--strict-markers", "-W", "error", "-p", "no:cacheprovider", "-k", "TestWorkers or now_is"]
    done = subprocess.run(  # noqa: S603 - our own tests
        [sys.executable, "-m", "pytest", *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "TestBroken::TestSweep::test_now_is_the_time_of_the_clock_of_the_store" in done.stdout
    assert "guarantee S47 of inturn.store" in done.stdout
    assert "now: It is the database's own clock, if there is one." in done.stdout

"""The page on how the specification is read says what the policies do."""

import re
from pathlib import Path

import pytest

from inturn import Policy, PriorityPolicy
from inturn.policy.priority import Counter
from inturn.values import SECOND

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reading-the-specification.md").read_text(encoding="utf-8")
ROWS = {
    cells[1].strip().strip("*"): [cell.strip() for cell in cells[2:6]]
    for line in TEXT.splitlines()
    if (cells := line.split("|")) and line.startswith("| **")
}
PRIORITY = PriorityPolicy()
INTERVAL = PRIORITY.reset_interval


def levels(policy: PriorityPolicy, first: Counter | None, n: int) -> list[int]:
    return policy.check_many(first, 0, n).document_levels()


def test_the_table_has_fifteen_whole_rows() -> None:
    assert len(ROWS) == 15
    assert all(all(cells) for cells in ROWS.values())
    assert sum(cells[0].startswith('"') and cells[0].endswith('"') for cells in ROWS.values()) == 14


def test_every_setting_that_can_be_chosen_is_one_of_the_policy() -> None:
    named = {name for cells in ROWS.values() for name in re.findall(r"`(\w+)`", cells[3])}
    assert named - {"fair", "classic", "time", "cost"} <= Policy().to_dict().keys()
    assert {f"`{name}`" for name in Policy().to_dict()} - {"`bytes_per_page`"} <= set(re.findall(r"`\w+`", TEXT))


def test_first_check_and_its_other_reading() -> None:
    ours, other = levels(PRIORITY, None, 30), levels(PRIORITY, Counter(0, 0), 30)
    assert (ours.count(1), ours.index(9) + 1) == (3, 22)
    assert (other.count(1), other.index(9) + 1) == (2, 21)
    shifted = PriorityPolicy(thresholds=tuple(threshold + 1 for threshold in PRIORITY.thresholds))
    assert levels(shifted, None, 30) == other


@pytest.mark.parametrize(("interval", "count"), [(INTERVAL, -6), (INTERVAL - 1, 0)])
def test_a_gap_of_exactly_1500_seconds_and_its_other_reading(interval: int, count: int) -> None:
    policy = PriorityPolicy(reset_interval=interval)
    assert policy.check(Counter(-5, 0), 1500 * SECOND).counter.count == count


def test_every_check_is_an_update() -> None:
    counter = None
    for minute in range(60):
        counter = PRIORITY.check(counter, minute * 60 * SECOND).counter
    assert counter == Counter(-59, 59 * 60 * SECOND)


def test_a_count_that_fits_several_lines_gets_the_last_level() -> None:
    assert PRIORITY.level(-25) == 9


def test_the_readme_lists_the_page() -> None:
    assert "[How we read the specification](docs/reading-the-specification.md)" in (ROOT / "README.md").read_text(
        encoding="utf-8"
    )

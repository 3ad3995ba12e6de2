"""The pages on priority say what the policies do: every number in them is read and compared."""

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from inturn import PriorityPolicy, TurnPolicy
from inturn.policy.scheduler import OLDEST_HEAD_INTERVAL
from inturn.values import SECOND

PAGES = Path(__file__).parents[2] / "docs" / "priority"
LANGUAGES = ("de", "en", "es", "pl", "pt")
BURST = 25

HEADING = re.compile(r"^(#+) ", re.MULTILINE)
SECTION = re.compile(r"^## ", re.MULTILINE)
TABLE_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
LEVEL_ROW = re.compile(r"^\| `(<|>=) (-\d+)` \| (\d+) \|$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<!\w)-?\d+")

PRIORITY = PriorityPolicy()
TURNS = TurnPolicy()
LAST = PRIORITY.levels
RESET = PRIORITY.reset_interval // SECOND
OVERDUE = TURNS.overdue_after // SECOND
ALL_PAGES = TURNS.overdue_every
SHARE = Fraction(TURNS.max_share)
OUT_OF_TURN = TURNS.out_of_turn_interval // SECOND
LEVELS_OF_BURST = [level for level, _ in PRIORITY.check_many(None, 0, BURST).per_document()]


def page(language: str) -> str:
    return (PAGES / f"{language}.md").read_text(encoding="utf-8")


def numbers(text: str) -> list[int]:
    return [int(number) for number in NUMBER.findall(text)]


def mismatches(text: str) -> list[str]:
    parts = SECTION.split(text)
    if len(parts) != 7:
        return [f"6 sections expected, not {len(parts) - 1}"]
    intro, short, table, example, turns, overdue, questions = parts
    end = -(BURST - 1)
    first_in_last_level = LEVELS_OF_BURST.index(LAST) + 1
    prose: dict[str, tuple[str, list[int]]] = {
        "intro": (intro, []),
        "short": (short, [1, RESET, RESET // 60, 0, RESET, 0, 1, LAST]),
        "table": (LEVEL_ROW.sub("", table), []),
        "example": (
            CODE_BLOCK.sub("", example),
            [BURST, BURST, 0, end, first_in_last_level, LAST, RESET, RESET, end - 1, LAST, 0, 1],
        ),
        "turns": (turns, [2, 1, LAST, 10_000, *SHARE.as_integer_ratio()]),
        "overdue": (
            overdue,
            [1, LAST, OVERDUE, OVERDUE // 60, ALL_PAGES, OLDEST_HEAD_INTERVAL, OUT_OF_TURN, 1, ALL_PAGES * LAST],
        ),
        "questions": (questions, [LAST, 1]),
    }
    error = [
        f"{name}: {sorted(result)} instead of {sorted(expected)}"
        for name, (part, expected) in prose.items()
        if Counter(result := numbers(part)) != Counter(expected)
    ]
    return [*error, *invalid_rows(table), *invalid_sequence(example)]


def invalid_rows(table: str) -> list[str]:
    rows = [(sign, int(count), int(level)) for sign, count, level in LEVEL_ROW.findall(table)]
    error = []
    if [level for _, _, level in rows] != list(range(LAST, 0, -1)):
        error.append(f"rows of levels {[level for _, _, level in rows]}")
    if [count for sign, count, _ in rows if sign == "<"] != sorted(PRIORITY.thresholds):
        error.append(f"thresholds of {rows}")
    if [count for sign, count, _ in rows if sign == ">="] != [PRIORITY.thresholds[0]]:
        error.append(f"first level of {rows}")
    for sign, count, level in rows:
        below, at = (level, level - 1) if sign == "<" else (level + 1, level)
        if (PRIORITY.level(count - 1), PRIORITY.level(count)) != (below, at):
            error.append(f"row {sign} {count}: {level}")
    return error


def invalid_sequence(example: str) -> list[str]:
    blocks = [numbers(block) for block in CODE_BLOCK.findall(example)]
    return [] if blocks == [LEVELS_OF_BURST] else [f"sequence {blocks} instead of {LEVELS_OF_BURST}"]


def shape(text: str) -> tuple[list[str], int, int]:
    return HEADING.findall(text), len(TABLE_ROW.findall(text)), len(CODE_BLOCK.findall(text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_number_of_a_page_is_the_policys(language: str) -> None:
    assert mismatches(page(language)) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_two_gaps_of_the_example_are_the_policys(language: str) -> None:
    after = PRIORITY.check_many(None, 0, BURST).counter
    check_result = PRIORITY.check(after, RESET * SECOND)
    reset = PRIORITY.check(after, RESET * SECOND + 1)
    at_the_interval, just_later = re.findall(
        r"^- (.*?)(?=^- |^$)", example_after_code(language), re.MULTILINE | re.DOTALL
    )
    assert Counter(numbers(at_the_interval)) == Counter([RESET, RESET, check_result.counter.count, check_result.level])
    assert Counter(numbers(just_later)) == Counter([reset.counter.count, reset.level])


def example_after_code(language: str) -> str:
    return CODE_BLOCK.split(SECTION.split(page(language))[3])[-1]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("by", [1, -1])
def test_any_one_wrong_number_is_found(language: str, by: int) -> None:
    text = page(language)
    places = list(NUMBER.finditer(text))
    assert len(places) > 70
    for place in places:
        edited = f"{text[: place.start()]}{int(place[0]) + by}{text[place.end() :]}"
        assert mismatches(edited), f"{place[0]} at {place.start()} changed by {by}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_row_or_a_sign_that_is_missing_is_found(language: str) -> None:
    text = page(language)
    for row in LEVEL_ROW.finditer(text):
        assert mismatches(text.replace(f"{row[0]}\n", ""))
    assert mismatches(text.replace("`>= -2`", "`< -2`"))
    assert mismatches(text.replace("`< -20`", "`>= -20`"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_pages_have_the_same_shape(language: str) -> None:
    headings, rows, blocks = shape(page(language))
    assert (headings, rows, blocks) == shape(page("en"))
    assert (len(headings), rows, blocks) == (7, 20, 1)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_links_to_how_the_specification_is_read(language: str) -> None:
    (link,) = re.findall(r"\[How we read the specification\]\((\S+)\)", page(language))
    assert (PAGES / link).resolve() == PAGES.parent / "reading-the-specification.md"
    assert (PAGES / link).is_file()


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_line_of_prose_turns_into_a_list(language: str) -> None:
    assert re.findall(r"^ *\d+[.)].*", page(language), re.MULTILINE) == []

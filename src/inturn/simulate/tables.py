"""History as a CSV file, of ours or of anyone's: one line a document, in any order.

    customer,arrived,service,pages,cost,failures,started,level
    acme,2026-03-02T08:00:00Z,12.5,4,,0,2026-03-02T08:00:01Z,1

`customer`, `arrived` and `service` must be there; all others may be left out, or be empty. Times are ISO 8601 (UTC
unless a zone stands with them) or seconds since any day; `service` is seconds of the last attempt, empty if nobody
knows; `started` is the last start.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sys import intern
from typing import Any, Final, TextIO

from inturn.errors import InvalidInputError
from inturn.model import MAX_ATTEMPTS, MAX_COST, MAX_TIME, MIN_COST, SECOND, clean_number, clean_text, seconds
from inturn.simulate.history import MOST, Came, History, Progress, made

NEEDED: Final = ("customer", "arrived", "service")
COLUMNS: Final = (*NEEDED, "pages", "cost", "failures", "started", "level")
BEGINNING: Final = datetime.fromtimestamp(0, UTC)
MICROSECOND: Final = timedelta(microseconds=1)
TELL_EVERY: Final = 10_000


def read_table(
    path: Path, since: int = 0, *, until: int | None = None, lead: int = 0, progress: Progress | None = None
) -> History:
    """History from a CSV file; errors name the line. Without `started` nobody knows how many workers there were."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            came = _rows(file, str(path), since - lead, until, progress)
    except (OSError, UnicodeDecodeError) as wrong:
        raise InvalidInputError(f"cannot read {path}: {wrong}") from wrong
    except csv.Error as wrong:
        raise InvalidInputError(f"{path} is no CSV: {wrong}") from wrong
    before = sum(each.at < since for each in came)
    if before == len(came):
        raise InvalidInputError(f"{path} has no document of that time: there is nothing to play")
    history = made(came, {})
    return history if not before else history.after(before)


def write_table(history: History, path: Path) -> int:
    """Write what counts of a history; how many lines."""
    history = history.counted()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(_lines(history))
    return len(history.arrivals)


def _lines(history: History) -> Iterator[Sequence[object]]:
    for number, arrival in enumerate(history.arrivals):
        given, finished = history.given[arrival.group], history.finished[number]
        yield (
            arrival.customer,
            _written(arrival.at),
            "" if finished is None else f"{arrival.service / SECOND:.6f}",
            "" if given.pages is None else given.pages,
            "" if given.pages is not None else f"{given.cost:g}",
            arrival.failures,
            "" if (started := history.started(number)) is None else _written(started),
            history.levels[number],
        )


def _rows(file: TextIO, name: str, since: int, until: int | None, progress: Progress | None) -> list[Came]:
    reader = csv.reader(file)
    header = [each.strip() for each in next(reader, [])]
    _check_header(header, name)
    kinds: dict[tuple[float, int | None], tuple[float, int | None]] = {}
    found: list[Came] = []
    for row in reader:
        if not row:
            continue
        try:
            each = _came(_by_name(header, row), kinds)
        except InvalidInputError as wrong:
            raise InvalidInputError(f"{name}, line {reader.line_num}: {wrong}") from wrong
        if each.at < since or (until is not None and each.at >= until):
            continue
        if len(found) == MOST:
            raise InvalidInputError(f"{name} has more than {MOST:,} documents; play less of it with --from and --to")
        found.append(each)
        if progress is not None and len(found) % TELL_EVERY == 0:
            progress(len(found), 0)
    return found


def _by_name(header: Sequence[str], row: Sequence[str]) -> Mapping[str, str]:
    if len(row) != len(header):
        raise InvalidInputError(f"{len(header)} columns are needed, not {len(row)}")
    return {column: cell.strip() for column, cell in zip(header, row, strict=True)}


def _check_header(header: Sequence[str], name: str) -> None:
    missing, unknown = [each for each in NEEDED if each not in header], sorted(set(header) - set(COLUMNS))
    if missing or unknown or len(set(header)) < len(header):
        wrong = f"lacks {', '.join(missing)}" if missing else f"does not know {', '.join(unknown) or 'a column twice'}"
        raise InvalidInputError(
            f"{name}, line 1: the header {wrong}; columns are {', '.join(COLUMNS)}, the first three of them needed"
        )


def _came(row: Mapping[str, str], kinds: dict[tuple[float, int | None], tuple[float, int | None]]) -> Came:
    at = _time("arrived", row["arrived"])
    service = seconds(_number("service", row["service"], 0, 86_400)) if row["service"] else None
    pages = int(_number("pages", row["pages"], 0, 1e9, int)) if row.get("pages") else None
    cost = _number("cost", row["cost"], MIN_COST, MAX_COST) if row.get("cost") and pages is None else 1.0
    failures = int(_number("failures", row["failures"], 0, MAX_ATTEMPTS - 1, int)) if row.get("failures") else 0
    started = _time("started", row["started"]) if row.get("started") else None
    if started is not None and started < at:
        raise InvalidInputError(f"started {row['started']} is before arrived {row['arrived']}")
    kind = (cost, pages)
    return Came(
        at,
        intern(clean_text("customer", row["customer"])),
        kinds.setdefault(kind, kind),
        service,
        failures,
        started,
        None if started is None or service is None else started + service,
        int(_number("level", row["level"], 1, 9, int)) if row.get("level") else 0,
    )


def _number(what: str, text: str, lowest: float, highest: float, kind: Callable[[str], Any] = float) -> float:
    try:
        number = kind(text)
    except ValueError:
        whole = "whole " if kind is int else ""
        raise InvalidInputError(f"{what} must be a {whole}number, not {text!r}") from None
    return clean_number(what, number, lowest, highest)


def _time(what: str, text: str) -> int:
    """ISO 8601, or seconds."""
    try:
        if "-" not in text[1:] and ":" not in text:
            at = seconds(float(text))
        else:
            read = datetime.fromisoformat(text)
            at = (read.replace(tzinfo=read.tzinfo or UTC) - BEGINNING) // MICROSECOND
    except (ValueError, OverflowError):
        raise InvalidInputError(
            f"{what} must be a time such as 2026-03-02T08:00:00Z, or seconds, not {text!r}"
        ) from None
    if not 0 <= at <= MAX_TIME:
        raise InvalidInputError(f"{what} must not be before 1970, as {text!r} is")
    return at


def _written(at: int) -> str:
    return (BEGINNING + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")

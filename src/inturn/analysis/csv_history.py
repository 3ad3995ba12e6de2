"""Read and write history as CSV, one line per document, in any order.

    customer,arrived,service,pages,cost,failures,started,level
    acme,2026-03-02T08:00:00Z,12.5,4,,0,2026-03-02T08:00:01Z,1

`customer`, `arrived` and `service` must be there; all others may be left out, or be empty. Times are ISO 8601 (UTC
unless a zone is given) or seconds since any day. `service` is the seconds of the last attempt, empty if unknown;
`started` is the last start.

A document of several steps has a line for each: `queue`, a number or name in `document` that they have alike, and
`step`, from 0. `arrived` is then when it came into that queue. A part of a document names in `part_of` the document and
the step that split it, as in 7:0.

Commas, semicolons or tabs separate the cells; between the latter two a decimal comma is read too. Names of columns may
be written with capitals. Columns with other names are ignored and reported, unless one looks like a mistyped name.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from sys import intern
from typing import Any, Final, NamedTuple, TextIO

from inturn.analysis.history import (
    MAX_HISTORY_DOCUMENTS,
    History,
    ProgressCallback,
    RecordedDocument,
    StepLink,
    build_history,
)
from inturn.errors import InvalidInputError
from inturn.files import write_private
from inturn.model import DEFAULT_QUEUE, clean_queue
from inturn.policy.priority import MAX_THRESHOLDS
from inturn.values import MAX_ATTEMPTS, MAX_COST, MAX_TIME, MIN_COST, SECOND, clean_number, clean_text, seconds

REQUIRED_COLUMNS: Final = ("customer", "arrived", "service")
COLUMNS: Final = (
    *REQUIRED_COLUMNS, "pages", "cost", "failures", "started", "level", "queue", "document", "step", "part_of",
)  # fmt: skip
STEP_COLUMNS: Final = ("queue", "document", "step", "part_of")
"""Written only where documents have other queues, steps or parts."""
EPOCH: Final = datetime.fromtimestamp(0, UTC)
MICROSECOND: Final = timedelta(microseconds=1)
MAX_DATETIME: Final = datetime.max.replace(tzinfo=UTC)
PROGRESS_INTERVAL_ROWS: Final = 10_000
DELIMITERS: Final = ",;\t"
EXACT_SECONDS_PATTERN: Final = re.compile(r"(\d{1,13})(?:\.(\d{1,6}))?", re.ASCII)
MIN_SIMILARITY: Final = 0.75
MAX_LEVEL: Final = MAX_THRESHOLDS + 1
MAX_STEP: Final = 1_000_000
CostBases = dict[tuple[float, int | None], tuple[float, int | None]]


class Layout(NamedTuple):
    """How a file is written: what separates its cells, and the names of its columns."""

    delimiter: str
    columns: Sequence[str]

    @property
    def ignored_columns(self) -> list[str]:
        """Columns that mean nothing here."""
        return [column for column in self.columns if column and column not in COLUMNS]


def read_csv(
    path: Path,
    since: int = 0,
    *,
    until: int | None = None,
    warmup: int = 0,
    progress: ProgressCallback | None = None,
    on_ignored: Callable[[Sequence[str]], None] | None = None,
) -> History:
    """History from a CSV file; errors name the line. Without `started` the number of workers is unknown.

    `on_ignored` is called with the names of columns that are left out, if there are any.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            layout = _read_header(file, str(path))
            if layout.ignored_columns and on_ignored is not None:
                on_ignored(layout.ignored_columns)
            came = _read_records(file, layout, str(path), (since - warmup, until), progress)
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not UTF-8: save it as CSV in UTF-8 ({error})") from error
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror or error}") from error
    except csv.Error as error:
        raise InvalidInputError(f"{path} is no CSV: {error}") from error
    before = sum(recorded_document.at < since for recorded_document in came)
    if before == len(came):
        raise InvalidInputError(f"{path} has no document of that time: there is nothing to play")
    history = build_history(came, {})
    return history if not before else history.with_warmup(before)


def write_csv(history: History, path: Path) -> int:
    """Write what counts of a history; how many lines."""
    history = history.without_warmup()
    with io.TextIOWrapper(write_private(path), encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        careful = csv.writer(file, quoting=csv.QUOTE_ALL)
        has_steps = history.has_steps or any(spec.queue != DEFAULT_QUEUE for spec in history.specs)
        width = len(COLUMNS) if has_steps else len(COLUMNS) - len(STEP_COLUMNS)
        writer.writerow(COLUMNS[:width])
        for line in _csv_rows(history):
            # The reader takes a blank before a name as part of it only where it is quoted.
            (careful if str(line[0])[:1].isspace() else writer).writerow(line[:width])
    return len(history.arrivals)


def _csv_rows(history: History) -> Iterator[Sequence[object]]:
    links = _written_links(history)
    for number, arrival in enumerate(history.arrivals):
        given, finished = history.specs[arrival.group], history.finished[number]
        started, level = history.started(number), history.levels[number]
        yield (
            arrival.customer,
            _format_time(arrival.at),
            # One that was started and not finished took nobody knows how long.
            "" if finished is None and started is not None else f"{arrival.service / SECOND:.6f}",
            "" if given.pages is None else given.pages,
            "" if given.pages is not None else repr(given.cost),
            arrival.failures,
            # Clocks differ: a document may seem to have been started before it came.
            "" if started is None else _format_time(max(started, arrival.at)),
            level or "",
            given.queue,
            *links.get(number, ("", "", "")),
        )


def _written_links(history: History) -> dict[int, tuple[object, object, object]]:
    """Return document, step and `part_of` of each arrival that belongs together with another."""
    followed = {arrival.follows for arrival in history.arrivals}
    steps: dict[int, tuple[int, int]] = {}
    part_of: dict[int, int] = {}

    def step_of(number: int) -> tuple[int, int]:
        chain = [number]
        while chain[-1] not in steps:
            arrival = history.arrivals[chain[-1]]
            if arrival.follows is None or arrival.is_part:
                steps[chain[-1]] = chain[-1], 0
            else:
                chain.append(arrival.follows)
        document, step = steps[chain[-1]]
        for place, own in enumerate(reversed(chain)):
            steps[own] = document, step + place
        return steps[number]

    for number, arrival in enumerate(history.arrivals):
        if arrival.follows is not None or number in followed:
            step_of(number)
            if arrival.is_part and arrival.follows is not None:
                part_of[number] = arrival.follows
    written: dict[int, tuple[object, object, object]] = {}
    for number, (document, step) in steps.items():
        whole = ":".join(map(str, step_of(part_of[number]))) if number in part_of else ""
        written[number] = document, step, whole
    return written


def _read_header(file: TextIO, name: str) -> Layout:
    """Read the header."""
    line = file.readline()
    delimiter = max(DELIMITERS, key=line.count)
    cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    layout = Layout(delimiter, [cell.strip().lower() for cell in cells])
    _check_header(layout, name)
    return layout


def _read_records(
    file: TextIO, layout: Layout, name: str, span: tuple[int, int | None], progress: ProgressCallback | None
) -> list[RecordedDocument]:
    reader, (since, until) = csv.reader(file, delimiter=layout.delimiter, skipinitialspace=True), span
    kinds: CostBases = {}
    recorded_documents: list[RecordedDocument] = []
    for row in reader:
        if not any(row):
            continue
        try:
            recorded_document = _parse_record(_cells_by_column(layout, row), kinds)
        except InvalidInputError as error:
            raise InvalidInputError(f"{name}, line {1 + reader.line_num}: {error}") from error
        if recorded_document.at < since or (until is not None and recorded_document.at >= until):
            continue
        if len(recorded_documents) == MAX_HISTORY_DOCUMENTS:
            raise InvalidInputError(
                f"{name} has more than {MAX_HISTORY_DOCUMENTS:,} documents; play less of it with --from and --to"
            )
        recorded_documents.append(recorded_document)
        if progress is not None and len(recorded_documents) % PROGRESS_INTERVAL_ROWS == 0:
            progress(len(recorded_documents), 0)
    return recorded_documents


def _cells_by_column(layout: Layout, row: Sequence[str]) -> Mapping[str, str]:
    if len(row) != len(layout.columns):
        raise InvalidInputError(f"{len(layout.columns)} columns are needed, not {len(row)}")
    cells = dict(zip(layout.columns, row, strict=True))
    named = {name: cell if name == "customer" else cell.strip() for name, cell in cells.items()}
    if layout.delimiter != ",":
        named.update({name: named[name].replace(",", ".") for name in ("service", "cost") if name in named})
    return named


def _check_header(layout: Layout, name: str) -> None:
    named = [column for column in layout.columns if column]
    missing = [required_column for required_column in REQUIRED_COLUMNS if required_column not in named]
    twice = sorted({item for item in named if item in COLUMNS and named.count(item) > 1})
    error = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(twice)} twice" if twice else None
    for item in layout.ignored_columns if error is None else ():
        meant = get_close_matches(item, [known for known in COLUMNS if known not in named], 1, MIN_SIMILARITY)
        if meant:
            error = f"does not know {item}: if {meant[0]} is meant, write that, else give it another name"
    if error is not None:
        raise InvalidInputError(
            f"{name}, line 1: the header {error}; columns are {', '.join(COLUMNS)}, the first three of them needed,"
            f" separated by commas, semicolons or tabs"
        )


def _parse_record(row: Mapping[str, str], cost_bases: CostBases) -> RecordedDocument:
    at = _parse_time("arrived", row["arrived"])
    service = seconds(_parse_number("service", row["service"], 0, 86_400)) if row["service"] else None
    pages = int(_parse_number("pages", row["pages"], 0, 1e9, int)) if row.get("pages") else None
    cost = _parse_number("cost", row["cost"], MIN_COST, MAX_COST) if row.get("cost") and pages is None else 1.0
    failures = int(_parse_number("failures", row["failures"], 0, MAX_ATTEMPTS - 1, int)) if row.get("failures") else 0
    started = _parse_time("started", row["started"]) if row.get("started") else None
    if started is not None and started < at:
        raise InvalidInputError(f"started {row['started']} is before arrived {row['arrived']}")
    kind = (cost, pages)
    return RecordedDocument(
        at,
        intern(clean_text("customer", row["customer"])),
        cost_bases.setdefault(kind, kind),
        service,
        failures,
        started,
        None if started is None or service is None else started + service,
        int(_parse_number("level", row["level"], 1, MAX_LEVEL, int)) if row.get("level") else 0,
        queue=intern(clean_queue(row["queue"])) if row.get("queue") else DEFAULT_QUEUE,
        link=_parse_link(row),
    )


def _parse_link(row: Mapping[str, str]) -> StepLink | None:
    """Return what connects the steps of a document, and parts with it; None if it stands alone."""
    document, step, whole = (row.get(name, "") for name in ("document", "step", "part_of"))
    if not document:
        if step or whole:
            raise InvalidInputError("a line with a step or part_of needs a document, which all of its steps have alike")
        return None
    part_of = None
    if whole:
        name, _, split_step = whole.rpartition(":")
        if not name:
            raise InvalidInputError(f"part_of names a document and the step that split it, as 7:0, not {whole!r}")
        part_of = name, int(_parse_number("part_of's step", split_step, 0, MAX_STEP, int))
    return StepLink(document, int(_parse_number("step", step, 0, MAX_STEP, int)) if step else 0, part_of)


def _parse_number(column: str, text: str, lowest: float, highest: float, kind: Callable[[str], Any] = float) -> float:
    try:
        number = kind(text)
    except ValueError:
        whole = "whole " if kind is int else ""
        raise InvalidInputError(f"{column} must be a {whole}number, not {text!r}") from None
    return clean_number(column, number, lowest, highest)


def _parse_time(column: str, text: str) -> int:
    """ISO 8601, or seconds."""
    try:
        if exact := EXACT_SECONDS_PATTERN.fullmatch(text):
            at = int(exact[1]) * SECOND + int((exact[2] or "").ljust(6, "0"))
        elif "-" not in text[1:] and ":" not in text:
            at = seconds(float(text))
        else:
            read = datetime.fromisoformat(text)
            at = (read.replace(tzinfo=read.tzinfo or UTC) - EPOCH) // MICROSECOND
    except (ValueError, OverflowError):
        raise InvalidInputError(
            f"{column} must be a time such as 2026-03-02T08:00:00Z, or seconds, not {text!r}"
        ) from None
    if not 0 <= at <= MAX_TIME:
        raise InvalidInputError(f"{column} must not be before 1970, as {text!r} is")
    return at


def _format_time(at: int) -> str:
    """A time as ISO 8601, or as seconds if it is beyond all calendars."""
    if at > (MAX_DATETIME - EPOCH) // MICROSECOND:
        return f"{at // SECOND}.{at % SECOND:06d}"
    return (EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")

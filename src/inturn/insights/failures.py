"""Group failed documents by their error: what differs between two of the same kind is masked."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from inturn.errors import NotFoundError
from inturn.queue_reader import QueueReader
from inturn.store_answers import Failure
from inturn.store_types import TimeRange

MAX_FAILURES: Final = 10_000
"""Failed documents that are grouped, the newest. More would take longer than a screen may."""
MAX_KIND_LENGTH: Final = 200
NO_ERROR: Final = "–"  # noqa: RUF001 - no figure, as in tables
_QUOTES: Final = ("''", '""', "``", "“”", "„“", "«»", "‘’")  # noqa: RUF001 - quotes of several languages
_QUOTED: Final = "|".join(
    rf"(?<!\w){re.escape(opening)}[^{re.escape(opening + closing)}]*{re.escape(closing)}(?!\w)"
    for opening, closing in _QUOTES
)
_MASKS: Final = (
    (re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]*://\S+"), "<url>"),
    (re.compile(_QUOTED), "<name>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+(\.[\w-]+)+\b"), "<address>"),
    (re.compile(r"(?<![\w/\\])([A-Za-z]:)?([/\\][\w.@%+~-]*[\w@%+~-])+[/\\]?"), "<path>"),
    (re.compile(r"(?<![\w/])[\w.-]+(/[\w.-]+){2,}"), "<path>"),
    (re.compile(r"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b(0x[0-9a-fA-F]+|(?=[0-9a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{8,})\b"), "<id>"),
    (re.compile(r"((?<!\w)[-+])?\d+([.,:]\d+)*"), "<n>"),
)
"""What is masked, in this order: a URL may contain a path, and a path numbers."""


class FailureGroup(NamedTuple):
    """Failed documents with the same kind of error."""

    id: str
    """Derived from the kind: the same on every server and every day."""
    kind: str
    count: int  # type: ignore[assignment]  # a field of this record, not tuple.count
    customers: tuple[str, ...]
    """Those with the most of these documents first."""
    first_at: int
    last_at: int
    example: Failure
    """The newest."""


class FailureGroups(NamedTuple):
    """The failures of a range of time by kind of error, the largest group first."""

    groups: tuple[FailureGroup, ...]
    documents: int
    oldest_at: int | None
    """Set if the range has more than `MAX_FAILURES`: only those that failed from then on are counted."""


def error_kind(error: str | None) -> str:
    """Return the first line of an error with numbers, ids, quoted names, paths and addresses masked.

    Two errors of one kind differ only in these. A pure function, so that every server groups alike.
    """
    lines = (error or "").strip().splitlines()
    kind = " ".join(lines[0].split()) if lines else ""
    for pattern, mask in _MASKS:
        kind = pattern.sub(mask, kind)
    return kind[:MAX_KIND_LENGTH].rstrip() or NO_ERROR


def group_id(kind: str) -> str:
    """Return the id of a group, short enough to be typed."""
    return hashlib.sha256(kind.encode()).hexdigest()[:10]


def failure_groups(queue: QueueReader, within: TimeRange) -> FailureGroups:
    """Group the newest failures of a range of time."""
    failures = queue.failures(within, limit=MAX_FAILURES)
    by_kind: dict[str, list[Failure]] = {}
    for failure in failures:
        by_kind.setdefault(error_kind(failure.error), []).append(failure)
    groups = sorted((_group(kind, members) for kind, members in by_kind.items()), key=lambda group: -group.count)
    oldest_at = failures[-1].at if len(failures) == MAX_FAILURES else None
    return FailureGroups(tuple(groups), len(failures), oldest_at)


def failures_of_group_id(queue: QueueReader, wanted: str, within: TimeRange) -> list[Failure]:
    """Return the failures of the group with this id, oldest first."""
    failures = queue.failures(within, limit=MAX_FAILURES)
    return [failure for failure in reversed(failures) if group_id(error_kind(failure.error)) == wanted]


def failures_of_group(queue: QueueReader, name: str, within: TimeRange) -> list[Failure]:
    """Return the failures of one group, oldest first, by its id or by a part of its kind; NotFoundError for none."""
    wanted = name.strip().casefold()
    members = [
        failure
        for failure in queue.failures(within, limit=MAX_FAILURES)
        for kind in (error_kind(failure.error),)
        if wanted and (group_id(kind) == wanted or wanted in kind.casefold())
    ]
    if not members:
        raise NotFoundError(f"no document failed with an error like {name!r} in this time; inturn failures lists them")
    members.reverse()
    return members


def _group(kind: str, members: Sequence[Failure]) -> FailureGroup:
    """Summarize failures of one kind, given newest first."""
    return FailureGroup(
        group_id(kind), kind, len(members), _by_frequency(members), members[-1].at, members[0].at, members[0]
    )


def _by_frequency(members: Iterable[Failure]) -> tuple[str, ...]:
    counts: dict[str, int] = {}
    for failure in members:
        counts[failure.customer] = counts.get(failure.customer, 0) + 1
    return tuple(sorted(counts, key=lambda customer: (-counts[customer], customer)))

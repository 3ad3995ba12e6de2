"""Value types of the queue: documents, customers, claims, workers. Immutable, without clock or I/O.

Times and durations are integer microseconds; times are since 1970 (UTC).
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from inturn.errors import InvalidInputError, VersionConflictError
from inturn.values import (
    MAX_ATTEMPTS,
    MAX_COST,
    MAX_METADATA_DEPTH,
    MAX_METADATA_LENGTH,
    MAX_NAME_LENGTH,
    MAX_TIME,
    MAX_WEIGHT,
    MIN_COST,
    MIN_WEIGHT,
    SECOND,
    clean_number,
    clean_text,
    clean_time,
)


class DocumentState(StrEnum):
    """The state of a document; `TRANSITIONS` lists the changes."""

    WAITING = "waiting"
    RUNNING = "running"
    DELAYED = "delayed"
    SPLIT = "split"
    """Its parts are processed; it goes on when all of them have ended."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


TRANSITIONS: Final[Mapping[DocumentState, frozenset[DocumentState]]] = MappingProxyType(
    {
        DocumentState.WAITING: frozenset({DocumentState.RUNNING, DocumentState.CANCELLED, DocumentState.EXPIRED}),
        DocumentState.RUNNING: frozenset(
            {
                DocumentState.DONE,
                DocumentState.DELAYED,
                DocumentState.SPLIT,
                DocumentState.FAILED,
                DocumentState.WAITING,
                DocumentState.CANCELLED,
            }
        ),
        DocumentState.SPLIT: frozenset({DocumentState.WAITING, DocumentState.CANCELLED}),
        DocumentState.DELAYED: frozenset({DocumentState.WAITING, DocumentState.CANCELLED, DocumentState.EXPIRED}),
        DocumentState.DONE: frozenset(),
        DocumentState.FAILED: frozenset({DocumentState.WAITING, DocumentState.SPLIT}),
        DocumentState.CANCELLED: frozenset({DocumentState.WAITING, DocumentState.SPLIT}),
        DocumentState.EXPIRED: frozenset({DocumentState.WAITING}),
    }
)
"""Allowed state changes. Running to waiting is a release, a lost lease, or the move into the queue of the next step.
Ended to waiting is a retry by hand, and ended to split one of a document whose parts are processed again."""

ENDED: Final = frozenset({DocumentState.DONE, DocumentState.FAILED, DocumentState.CANCELLED, DocumentState.EXPIRED})
CANCELLABLE: Final = frozenset(state for state, after in TRANSITIONS.items() if DocumentState.CANCELLED in after)
EXPEDITABLE: Final = frozenset({DocumentState.WAITING, DocumentState.DELAYED})
RETRYABLE: Final = frozenset(state for state in ENDED if DocumentState.WAITING in TRANSITIONS[state])
DEFAULT_COST: Final = 1.0
NO_DELAY: Final = 0
NO_METADATA: Final[Mapping[str, Any]] = MappingProxyType({})


def _metadata_to_json(metadata: Mapping[str, Any]) -> str | None:
    """Validate metadata and return it as JSON text; None if it is empty."""
    try:
        values = metadata if type(metadata) is dict else dict(metadata)
        text = _JSON_ENCODER.encode(values)
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"metadata must be JSON, an object with text keys: {error}") from error
    if len(text) > MAX_METADATA_LENGTH:
        raise InvalidInputError(f"metadata may have {MAX_METADATA_LENGTH} characters as JSON, not {len(text)}")
    if text.count("[") + text.count("{") > MAX_METADATA_DEPTH and _is_deeper(values, MAX_METADATA_DEPTH):
        raise InvalidInputError(f"metadata may be nested {MAX_METADATA_DEPTH} deep, not deeper")
    return text if values else None


def _is_deeper(value: Any, max_depth: int) -> bool:
    layer = [value]
    for _ in range(max_depth):
        containers = [node for node in layer if isinstance(node, _CONTAINER_TYPES)]
        layer = [child for node in containers for child in (node.values() if isinstance(node, dict) else node)]
    return any(isinstance(node, _CONTAINER_TYPES) for node in layer)


_JSON_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_CONTAINER_TYPES: Final = (dict, list, tuple)


DEFAULT_QUEUE: Final = "default"
"""The queue of documents that name none. Every store has it."""
_QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


MAX_STEPS: Final = 100
"""Queues that a document can be given to pass through."""


def clean_queue(name: str) -> str:
    """Validate a queue's name."""
    if not isinstance(name, str) or _QUEUE_NAME.fullmatch(name) is None:
        raise InvalidInputError(
            f"a queue's name has 1 to 63 letters, digits, dots, hyphens and underscores, and begins with a letter or a"
            f" digit, not {name!r}"
        )
    return name


def clean_steps(steps: Sequence[str]) -> tuple[str, ...]:
    """Validate the names of queues that a document passes through, in order; a queue may come several times."""
    if isinstance(steps, str) or len(steps) > MAX_STEPS:
        raise InvalidInputError(f"steps must be a list of at most {MAX_STEPS} names of queues, not {steps!r}")
    return tuple(map(clean_queue, steps))


def join_steps(steps: Sequence[str]) -> str | None:
    """Return the names of queues as stores write them; None if there are none."""
    return ",".join(steps) or None


def split_steps(text: str | None) -> tuple[str, ...]:
    """Return the names of queues from what stores write."""
    return tuple(text.split(",")) if text else ()


def steps_after(queue: str, ahead: Sequence[str]) -> tuple[str, ...]:
    """Return the steps that remain once a document has gone to a queue, of those that were ahead of it.

    A queue that is among them is reached, and those before it are skipped. Any other is a detour.
    """
    return tuple(ahead[ahead.index(queue) + 1 :] if queue in ahead else ahead)


def _first_step(queue: str, steps: Sequence[str]) -> tuple[str, str | None]:
    """Return the first queue and, if there are more, all of them as stores write them."""
    if not steps:
        return clean_queue(queue), None
    names = clean_steps(steps)
    if queue not in {DEFAULT_QUEUE, names[0]}:
        raise InvalidInputError(
            f"queue is the first of the steps: give steps alone, or the queue {names[0]!r}, not {queue!r}"
        )
    return names[0], join_steps(names) if len(names) > 1 else None


class _DocumentFields(NamedTuple):
    name: str
    uri: str | None
    blob: str | None
    sha256: str | None
    size: int | None
    media_type: str | None
    batch: str | None
    metadata_json: str | None
    cost: float
    delay: int
    start_by: int | None
    max_attempts: int
    pages: int | None
    group: str | None
    queue: str
    steps_text: str | None


class NewDocument(_DocumentFields):
    """A document to submit: a stored file (`blob`) or a reference (`uri`), and how to treat it.

    `pages` is counted at submission. `group` names a part of the customer, for example a team or a user: groups of one
    customer take turns. `queue` names the queue that it waits in first, which is made on first use; `steps` names all
    queues that it passes through, the first included. Metadata is held as JSON text (`metadata_json`) and steps as text
    (`steps_text`), which stores write unchanged.
    `_make` skips validation; stores use it for rows that were validated before.
    """

    __slots__ = ()

    def __new__(  # noqa: PLR0913, PLR0917 - a record's fields
        cls,
        name: str,
        uri: str | None = None,
        blob: str | None = None,
        sha256: str | None = None,
        size: int | None = None,
        media_type: str | None = None,
        batch: str | None = None,
        metadata: Mapping[str, Any] = NO_METADATA,
        cost: float = DEFAULT_COST,
        delay: int = NO_DELAY,
        start_by: int | None = None,
        max_attempts: int = 3,
        pages: int | None = None,
        group: str | None = None,
        queue: str = DEFAULT_QUEUE,
        steps: Sequence[str] = (),
    ) -> Self:
        """Validate the fields."""
        if type(name) is not str or not (name.isascii() and name.isprintable() and 0 < len(name) <= MAX_NAME_LENGTH):
            name = clean_text("a document's name", name)
        if cost is not DEFAULT_COST:
            clean_number("cost", cost, MIN_COST, MAX_COST)
        if delay is not NO_DELAY:
            clean_time("delay", delay)
        if type(max_attempts) is not int or not 1 <= max_attempts <= MAX_ATTEMPTS:
            raise InvalidInputError(
                f"max_attempts must be a whole number from 1 to {MAX_ATTEMPTS}, not {max_attempts!r}",
            )
        if batch is not None:
            batch = clean_text("a batch's name", batch)
        if group is not None:
            group = clean_text("a group's name", group)
        steps_text = None
        if steps or queue is not DEFAULT_QUEUE:
            queue, steps_text = _first_step(queue, steps)
        if start_by is not None:
            clean_time("start_by", start_by)
        if uri is not None or media_type is not None or size is not None or pages is not None:
            _validate_content(uri, blob, media_type, size, pages)
        text = None if metadata is NO_METADATA else _metadata_to_json(metadata)
        return super().__new__(
            cls,
            name,
            uri,
            blob,
            sha256,
            size,
            media_type,
            batch,
            text,
            cost,
            delay,
            start_by,
            max_attempts,
            pages,
            group,
            queue,
            steps_text,
        )

    @property
    def steps(self) -> tuple[str, ...]:
        """The queues that it passes through, as submitted."""
        return (self.queue,) if self.steps_text is None else split_steps(self.steps_text)

    @property
    def steps_ahead(self) -> str | None:
        """The steps after the first one, as stores write them."""
        return None if self.steps_text is None else self.steps_text.partition(",")[2]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata, parsed from JSON on each access."""
        return NO_METADATA if self.metadata_json is None else MappingProxyType(json.loads(self.metadata_json))

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments of the constructor; metadata is a plain dict."""
        values = self._asdict()
        del values["metadata_json"], values["steps_text"]
        steps = [] if self.steps_text is None else list(self.steps)
        return {**values, "metadata": dict(self.metadata), "steps": steps}

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), self.to_dict()

    def _replace(self, **changes: Any) -> Self:
        """Return a copy with these changes, validated again."""
        return type(self)(**{**self.to_dict(), **changes})


_COLUMN_NAMES: Final = {"metadata_json": "metadata", "group": "group_name", "steps_text": "steps"}
DOCUMENT_COLUMNS: Final = tuple(_COLUMN_NAMES.get(name, name) for name in NewDocument._fields)
"""Column names for the fields of `NewDocument`, in the order of the tuple."""


def _validate_content(
    uri: str | None, blob: str | None, media_type: str | None, size: int | None, pages: int | None
) -> None:
    if uri is not None:
        clean_text("uri", uri, max_length=2048)
        if blob is not None:
            raise InvalidInputError("a document is a stored file or a reference: give blob or uri, not both")
    if media_type is not None:
        clean_text("media_type", media_type)
    if size is not None and (type(size) is not int or not 0 <= size < 2**62):
        raise InvalidInputError(f"size must be a whole number of bytes, 0 or more, not {size!r}")
    if pages is not None and (type(pages) is not int or not 0 <= pages < 2**62):
        raise InvalidInputError(f"pages must be a whole number, 0 or more, not {pages!r}")


class Receipt(NamedTuple):
    """The answer for one submitted document: its id, its level, and the counter after its check."""

    id: str
    level: int
    count: int  # type: ignore[assignment]  # a field of this record, not tuple.count


class Check(NamedTuple):
    """The answer of one check: the level, and the counter after the check."""

    level: int
    count: int  # type: ignore[assignment]  # a field of this record, not tuple.count


class Document(NamedTuple):
    """A stored document. A NamedTuple because every claim builds one."""

    id: str
    customer: str
    seq: int
    spec: NewDocument
    level: int
    count: int  # type: ignore[assignment]  # a field of this record, not tuple.count
    state: DocumentState
    submitted_at: int
    ready_at: int
    due_at: int | None
    started_at: int | None
    finished_at: int | None
    attempt: int
    fence: int | None
    worker: str | None
    lease_until: int | None
    expedited: bool
    error: str | None
    began_at: int | None = None
    """When a worker slot began the last attempt, which was claimed at `started_at`. None until the outcome."""
    worked: int | None = None
    """Processing time of that attempt in microseconds. None until the outcome."""
    queue: str = DEFAULT_QUEUE
    """Where it waits or runs, or ended. While it is split: where it goes once its parts have ended."""
    step: int = 0
    """How many steps it has behind it."""
    ahead: tuple[str, ...] = ()
    """The queues that are planned after this one."""
    parent: str | None = None
    """The id of the document that it is a part of."""
    part: int | None = None
    """Its number among the parts, from 1."""

    @property
    def work_began_at(self) -> int | None:
        """When the last attempt began: `began_at`, or the time of the claim if that is unknown."""
        return self.started_at if self.began_at is None else self.began_at

    @property
    def work_ended_at(self) -> int | None:
        """When the last attempt ended, which is before the outcome was recorded. None while it runs."""
        if self.began_at is None or self.worked is None:
            return self.finished_at
        return self.began_at + self.worked

    @property
    def lane_level(self) -> int:
        """The level of its lane: its own level, or 0 once expedited."""
        return EXPEDITED_LEVEL if self.expedited else self.level

    @property
    def is_rejected(self) -> bool:
        """Whether it failed for good although attempts were left."""
        return self.state is DocumentState.FAILED and self.attempt < self.spec.max_attempts


EXPEDITED_LEVEL: Final = 0
"""The level of expedited documents, served before level 1."""


class ResultFile(NamedTuple):
    """A file of a result; its bytes are in a blob."""

    name: str
    blob: str
    size: int
    sha256: str
    media_type: str | None = None


class Claim(NamedTuple):
    """A document leased to a worker until `document.lease_until`. The fence identifies the claim."""

    document: Document
    fence: int


class LaneStatus(NamedTuple):
    """One customer's waiting documents of one level of a queue."""

    level: int
    waiting: int
    is_open: bool
    queue: str = DEFAULT_QUEUE


class RateLimit(NamedTuple):
    """At most `documents` starts in every `per` microseconds, after a first burst of as many."""

    documents: int
    per: int


class CustomerSettings(NamedTuple):
    """Settings of one customer, changed by operators."""

    weight: float = 1.0
    cap: int | None = None
    rate: RateLimit | None = None
    paused: bool = False
    display_name: str | None = None
    keep: int | None = None
    """Retention of its ended documents in microseconds; None: the default of the queue."""


class QueueSettings(NamedTuple):
    """Settings of one queue, changed by operators."""

    description: str | None = None
    weight: float = 1.0
    """How often it is served, compared with the other queues of a worker that serves several."""
    cap: int | None = None
    """At most so many of its documents run at once, of all customers."""
    rate: RateLimit | None = None
    """At most so many starts in a span of time, of all customers."""
    manual: bool = False
    """Whether people serve it: `why` names no missing worker, and operators take documents from it by hand."""
    form: str | None = None
    """What a person fills in, as JSON text of a list of fields (`inturn.forms`); None: any JSON value."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values by name."""
        return {**self._asdict(), "rate": None if self.rate is None else list(self.rate)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "QueueSettings":
        """Parse the output of `to_dict`."""
        rate = data.get("rate")
        return cls(**{**data, "rate": None if rate is None else RateLimit(*rate)})


class QueueStatus(NamedTuple):
    """A queue of a store: its settings, its documents that wait and run, and whether it is paused."""

    name: str
    settings: QueueSettings
    paused: bool
    waiting: int
    running: int


class Customer(NamedTuple):
    """A customer: its counter, settings, running documents and lanes."""

    name: str
    count: int | None  # type: ignore[assignment]  # a field of this record, not tuple.count
    updated_at: int | None
    settings: CustomerSettings
    running: int
    lanes: tuple[LaneStatus, ...]
    at_slot_limit: bool = False
    """Whether its lanes are closed because it holds its share of the slots while other customers come."""

    @property
    def waiting(self) -> int:
        """Documents in its lanes."""
        return sum(lane.waiting for lane in self.lanes)


def changed_queue_settings(before: QueueSettings, changes: Mapping[str, Any]) -> QueueSettings:
    """Apply changes to the settings of a queue, and validate them."""
    settings = before._replace(**changes)
    clean_number("weight", settings.weight, MIN_WEIGHT, MAX_WEIGHT)
    _validate_limits(settings.cap, settings.rate)
    if settings.description is not None:
        clean_text("description", settings.description)
    if type(settings.manual) is not bool:
        raise InvalidInputError(f"manual must be true or false, not {settings.manual!r}")
    return settings


def _validate_limits(cap: int | None, rate: RateLimit | None) -> None:
    if cap is not None and (type(cap) is not int or not 1 <= cap <= 1_000_000):
        raise InvalidInputError(f"cap must be a whole number from 1 to 1000000, or None, not {cap!r}")
    if rate is not None:
        documents, per = rate
        if type(documents) is not int or not 1 <= documents <= 1_000_000:
            raise InvalidInputError(f"a rate needs a whole number of documents from 1 to 1000000, not {documents!r}")
        if type(per) is not int or not 1_000 <= per <= 86_400 * SECOND or per < documents:
            raise InvalidInputError(
                f"a rate's span must be 1 millisecond to 1 day in microseconds"
                f" and at least one microsecond a document, not {per!r}",
            )


def clean_settings(settings: CustomerSettings) -> CustomerSettings:
    """Validate settings; the error names the one that is out of range."""
    clean_number("weight", settings.weight, MIN_WEIGHT, MAX_WEIGHT)
    _validate_limits(settings.cap, settings.rate)
    if settings.keep is not None and (type(settings.keep) is not int or not 0 <= settings.keep <= MAX_TIME):
        raise InvalidInputError(f"keep must be a whole number of microseconds, 0 or more, not {settings.keep!r}")
    if settings.display_name is not None:
        clean_text("display_name", settings.display_name)
    return settings


def changed_settings(
    before: CustomerSettings, changes: Mapping[str, Any], expected: Mapping[str, Any]
) -> CustomerSettings:
    """Apply changes to settings that are as expected, and validate them."""
    for name, value in expected.items():
        if getattr(before, name) != value:
            raise VersionConflictError(
                f"{name} is {getattr(before, name)!r} by now, not {value!r}; nothing was changed: read them again"
            )
    return clean_settings(before._replace(**changes))


def settings_to_dict(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert settings to JSON values."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in changes.items()}


def settings_from_dict(data: Mapping[str, Any]) -> CustomerSettings:
    """Parse the output of `settings_to_dict`."""
    rate = data.get("rate")
    return CustomerSettings(**{**data, "rate": None if rate is None else RateLimit(*rate)})

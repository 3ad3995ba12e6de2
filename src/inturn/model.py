"""The nouns of Inturn: what is submitted, what is kept, what is told. Frozen values, no clock, no I/O."""

import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from inturn.errors import InvalidInputError

SECOND: Final = 1_000_000
MAX_NAME_LENGTH: Final = 255
MAX_METADATA_LENGTH: Final = 16_384
MAX_METADATA_DEPTH: Final = 100
"""How deep metadata may be nested: whoever reads it may stand deep in calls already."""
MAX_COST: Final = 10_000.0
MIN_COST: Final = 0.001
MAX_WEIGHT: Final = 1_000.0
MIN_WEIGHT: Final = 0.001
MAX_ATTEMPTS: Final = 100
MAX_TIME: Final = 2**62
"""The latest time a store can keep, about the year 148,000: whatever adds a delay to a time stays below it."""


class DocumentState(StrEnum):
    """Where a document is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    DELAYED = "delayed"
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
                DocumentState.FAILED,
                DocumentState.WAITING,
                DocumentState.CANCELLED,
            }
        ),
        DocumentState.DELAYED: frozenset({DocumentState.WAITING, DocumentState.CANCELLED, DocumentState.EXPIRED}),
        DocumentState.DONE: frozenset(),
        DocumentState.FAILED: frozenset({DocumentState.WAITING}),
        DocumentState.CANCELLED: frozenset({DocumentState.WAITING}),
        DocumentState.EXPIRED: frozenset({DocumentState.WAITING}),
    }
)
"""Which state may follow which. Back from running to waiting is a hand-back or a lost lease; back from an end is a
retry by hand."""

ENDED: Final = frozenset(
    {
        DocumentState.DONE,
        DocumentState.FAILED,
        DocumentState.CANCELLED,
        DocumentState.EXPIRED,
    }
)
CANCELLABLE: Final = frozenset(state for state, after in TRANSITIONS.items() if DocumentState.CANCELLED in after)
RETRYABLE: Final = frozenset(state for state in ENDED if DocumentState.WAITING in TRANSITIONS[state])
DEFAULT_COST: Final = 1.0
NO_DELAY: Final = 0
NO_METADATA: Final[Mapping[str, Any]] = MappingProxyType({})


def seconds(value: float) -> int:
    """Seconds as the microseconds that every time and duration here is given in."""
    if not math.isfinite(value):
        raise InvalidInputError(f"a time in seconds must be a finite number, not {value}")
    return round(value * SECOND)


def clean_text(name: str, text: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """NFC, 1 to `longest` characters, no control characters; `what` names the value in the error."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{name} must be text, not {type(text).__name__}")
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize("NFC", text)
        if any(unicodedata.category(char) in {"Cc", "Cs"} for char in text):
            raise InvalidInputError(f"{name} may not contain control characters or lone surrogates: {text!r}")
    if not 0 < len(text) <= max_length:
        raise InvalidInputError(f"{name} must have 1 to {max_length} characters, not {len(text)}")
    return text


def sanitize_name(text: str) -> str:
    """A document's name made of what somebody else called it: what we do not take is replaced, the end is kept."""
    if text.isascii() and text.isprintable():
        return text[-MAX_NAME_LENGTH:]
    clean = "".join("\ufffd" if unicodedata.category(char) in {"Cc", "Cs"} else char for char in text)
    return unicodedata.normalize("NFC", clean)[-MAX_NAME_LENGTH:]


def clean_number(name: str, value: float, lowest: float, highest: float) -> float:
    """A finite number between two bounds, both allowed; `what` names the value in the error."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not lowest <= value <= highest:
        raise InvalidInputError(f"{name} must be a number from {lowest:g} to {highest:g}, not {value!r}")
    return value


def clean_time(name: str, value: int) -> int:
    """A time or duration in whole microseconds."""
    if type(value) is not int or not 0 <= value <= MAX_TIME:
        raise InvalidInputError(
            f"{name} must be a whole number of microseconds, 0 or more, not {value!r}; for seconds write seconds(…)",
        )
    return value


def _make_json_encoder() -> Callable[[Any, int], Iterable[str]]:
    """What writes JSON in parts. `JSONEncoder` makes it anew for each text: half of the time that a small one takes."""
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    try:
        write = make(None, encoder.default, json.encoder.encode_basestring, None, ": ", ", ", False, False, False)
        "".join(write({"a": 1}, 0))
    except TypeError:  # not the Python it was made for
        return lambda value, _: encoder.encode(value)
    return write  # type: ignore[no-any-return]


_encode_json: Final = _make_json_encoder()


def _metadata_json(metadata: Mapping[str, Any]) -> str | None:
    """As it is kept; None if there is nothing in it."""
    try:
        given = metadata if type(metadata) is dict else dict(metadata)
        text = "".join(_encode_json(given, 0))
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"metadata must be JSON, an object with text keys: {error}") from error
    if len(text) > MAX_METADATA_LENGTH:
        raise InvalidInputError(f"metadata may have {MAX_METADATA_LENGTH} characters as JSON, not {len(text)}")
    if text.count("[") + text.count("{") > MAX_METADATA_DEPTH and _is_deeper(given, MAX_METADATA_DEPTH):
        raise InvalidInputError(f"metadata may be nested {MAX_METADATA_DEPTH} deep, not deeper")
    return text if given else None


def _is_deeper(value: Any, max_depth: int) -> bool:
    layer = [value]
    for _ in range(max_depth):
        nested = [
            item.values() if isinstance(item, dict) else item for item in layer if isinstance(item, _CONTAINER_TYPES)
        ]
        layer = [part for item in nested for part in item]
    return any(isinstance(item, _CONTAINER_TYPES) for item in layer)


_CONTAINER_TYPES: Final = (dict, list, tuple)


class _DocumentSpec(NamedTuple):
    name: str
    uri: str | None
    blob: str | None
    sha256: str | None
    size: int | None
    media_type: str | None
    batch: str | None
    metadata: Any
    cost: float
    delay: int
    start_by: int | None
    max_attempts: int
    pages: int | None


class NewDocument(_DocumentSpec):
    """What a submitter gives: a file we keep (`blob`) or a reference to one elsewhere (`uri`), and how to treat it.

    `pages` is as counted when it came in. A tuple because one is made for every document; treat it as a record.
    Its metadata is text in the tuple, which stores keep as it is. `_make` checks nothing: it is for values that were
    clean before.
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
    ) -> Self:
        """Check what is given."""
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
        if start_by is not None:
            clean_time("start_by", start_by)
        if uri is not None or media_type is not None or size is not None or pages is not None:
            _validate_content(uri, blob, media_type, size, pages)
        text = None if metadata is NO_METADATA else _metadata_json(metadata)
        return tuple.__new__(
            cls,
            (name, uri, blob, sha256, size, media_type, batch, text, cost, delay, start_by, max_attempts, pages),
        )

    @property
    def metadata(self) -> Mapping[str, Any]:
        """As JSON makes it of what was given, read anew each time; the tuple has it as text."""
        text: str | None = super().metadata
        return NO_METADATA if text is None else MappingProxyType(json.loads(text))

    def __getnewargs__(self) -> tuple[Any, ...]:
        """What makes a copy of it, also in another process."""
        return tuple({**self._asdict(), "metadata": dict(self.metadata)}.values())

    def _replace(self, **changes: Any) -> Self:
        """The same with these changes, checked again."""
        return type(self)(**{**self._asdict(), "metadata": self.metadata, **changes})


def _validate_content(
    uri: str | None, blob: str | None, media_type: str | None, size: int | None, pages: int | None
) -> None:
    if uri is not None:
        clean_text("uri", uri, max_length=2048)
        if blob is not None:
            raise InvalidInputError("a document is a file we keep or a reference: give blob or uri, not both")
    if media_type is not None:
        clean_text("media_type", media_type)
    if size is not None and (type(size) is not int or not 0 <= size < 2**62):
        raise InvalidInputError(f"size must be a whole number of bytes, 0 or more, not {size!r}")
    if pages is not None and (type(pages) is not int or not 0 <= pages < 2**62):
        raise InvalidInputError(f"pages must be a whole number, 0 or more, not {pages!r}")


class Receipt(NamedTuple):
    """What the submitter gets for each document."""

    id: str
    level: int
    count: int  # type: ignore[assignment]  # a field of this record, not tuple.count


class Check(NamedTuple):
    """What a check alone gives: the count it left and the level of that count."""

    level: int
    count: int  # type: ignore[assignment]  # a field of this record, not tuple.count


class Document(NamedTuple):
    """A document as the store keeps it. A tuple because one is made for every claim; treat it as a record."""

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
    """When a worker's slot began its last attempt, claimed at `started_at`; None while nobody has said."""
    worked: int | None = None
    """Microseconds that the slot worked in that attempt; None while nobody has said."""

    @property
    def work_began_at(self) -> int | None:
        """When its last attempt began; the claim, where nothing else is known."""
        return self.started_at if self.began_at is None else self.began_at

    @property
    def work_ended_at(self) -> int | None:
        """When its last attempt ended: some time before that was recorded; None while it goes on."""
        if self.began_at is None or self.worked is None:
            return self.finished_at
        return self.began_at + self.worked

    @property
    def lane_level(self) -> int:
        """The level whose line it waits in: its own, or 0, before all others, once expedited."""
        return EXPEDITED_LEVEL if self.expedited else self.level

    @property
    def is_rejected(self) -> bool:
        """Whether it failed with attempts left: then another attempt was not worth making."""
        return self.state is DocumentState.FAILED and self.attempt < self.spec.max_attempts


EXPEDITED_LEVEL: Final = 0
"""The level of the lines that operators fill by expediting: served before level 1."""


class ResultFile(NamedTuple):
    """A file that belongs to a result; its bytes are a blob."""

    name: str
    blob: str
    size: int
    sha256: str
    media_type: str | None = None


class Progress(NamedTuple):
    """How far a processor says it is with a document."""

    done: float
    total: float | None = None


class WorkerReport(NamedTuple):
    """What a worker tells of itself with every heartbeat."""

    name: str
    host: str
    process: int
    slots: int
    busy: int
    processor: str
    started_at: int
    stopping: bool = False
    progress: Mapping[str, Progress] = MappingProxyType({})
    """By the ids of documents whose processors told it."""
    at_work: Mapping[str, int] | None = None
    """By the ids of the documents that its slots work on, for how many microseconds they have; what else it holds is
    claimed ahead. None: it does not say."""


def report_to_json(report: WorkerReport) -> tuple[str, str | None]:
    """A report as JSON, what it says of documents at work apart: older versions know nothing of that."""
    stored = {**report._asdict(), "progress": dict(report.progress)}
    at_work = stored.pop("at_work")
    return json.dumps(stored), None if at_work is None else json.dumps(dict(at_work))


def report_from_json(text: str, at_work: str | None) -> WorkerReport:
    """A report read back from `report_to_json`."""
    stored = json.loads(text)
    progress = {id_: Progress(*item) for id_, item in stored["progress"].items()}
    return WorkerReport(**{**stored, "progress": progress}, at_work=None if at_work is None else json.loads(at_work))


class Worker(NamedTuple):
    """A worker as the store last heard of it."""

    report: WorkerReport
    seen_at: int


class Claim(NamedTuple):
    """A document in a worker's hands: the fence proves whose it is, until `document.lease_until`."""

    document: Document
    fence: int


class LaneStatus(NamedTuple):
    """One customer's waiting documents of one level."""

    level: int
    waiting: int
    is_open: bool


class RateLimit(NamedTuple):
    """At most so many documents started in any stretch of `per` microseconds, after a first burst of as many."""

    documents: int
    per: int


class CustomerSettings(NamedTuple):
    """What an operator decides about one customer."""

    weight: float = 1.0
    cap: int | None = None
    rate: RateLimit | None = None
    paused: bool = False
    display_name: str | None = None
    keep: int | None = None
    """How long its ended documents are kept, in microseconds; None: as long as everybody's."""


class Customer(NamedTuple):
    """A customer as the store knows it."""

    name: str
    count: int | None  # type: ignore[assignment]  # a field of this record, not tuple.count
    updated_at: int | None
    settings: CustomerSettings
    running: int
    lanes: tuple[LaneStatus, ...]

    @property
    def waiting(self) -> int:
        """Documents in its lines."""
        return sum(line.waiting for line in self.lanes)


def clean_settings(settings: CustomerSettings) -> CustomerSettings:
    """The settings, or an error that says which of them is out of range."""
    clean_number("weight", settings.weight, MIN_WEIGHT, MAX_WEIGHT)
    if settings.cap is not None and (type(settings.cap) is not int or not 1 <= settings.cap <= 1_000_000):
        raise InvalidInputError(f"cap must be a whole number from 1 to 1000000, or None, not {settings.cap!r}")
    if settings.rate is not None:
        documents, per = settings.rate
        if type(documents) is not int or not 1 <= documents <= 1_000_000:
            raise InvalidInputError(f"a rate needs a whole number of documents from 1 to 1000000, not {documents!r}")
        if type(per) is not int or not 1_000 <= per <= 86_400 * SECOND or per < documents:
            raise InvalidInputError(
                f"a rate's span must be 1 millisecond to 1 day in microseconds"
                f" and at least one microsecond a document, not {per!r}",
            )
    if settings.keep is not None and (type(settings.keep) is not int or not 0 <= settings.keep <= MAX_TIME):
        raise InvalidInputError(f"keep must be a whole number of microseconds, 0 or more, not {settings.keep!r}")
    if settings.display_name is not None:
        clean_text("display_name", settings.display_name)
    return settings


def settings_to_dict(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON knows them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in changes.items()}


def settings_from_dict(data: Mapping[str, Any]) -> CustomerSettings:
    """Settings read back from `plain`."""
    rate = data.get("rate")
    return CustomerSettings(**{**data, "rate": None if rate is None else RateLimit(*rate)})

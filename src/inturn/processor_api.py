"""The interface of processors: the document they get, the result they return, the exceptions they raise."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol
from urllib.parse import urlsplit

from inturn.errors import InvalidInputError
from inturn.model import DocumentState, NewDocument

_JSON_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class Retry(Exception):  # noqa: N818 - a request, not an error
    """Raised by a processor to try the document again, `after` seconds or after the usual backoff."""

    def __init__(self, reason: str = "the processor asked for another attempt", *, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class Reject(Exception):  # noqa: N818 - about the document, not an error of the program
    """Raised by a processor to fail the document at once and for good, with this reason."""


def describe_unfetched(uri: str) -> str:
    """Explain why a uri was not fetched, and how to allow it. Only the host is named: the rest may be a secret."""
    try:
        parts = urlsplit(uri)
        scheme, host = parts.scheme.lower(), parts.hostname
    except ValueError:
        scheme, host = "", None
    if scheme != "https" or host is None:
        return (
            f"this document is a reference ({scheme or 'unknown'}:), and workers fetch https: alone: send the file"
            f" itself, or read document.uri in a processor of your own"
        )
    return (
        f"this document is a reference to {host}, and this worker fetches nothing: start workers with --fetch {host}"
        f' (or fetch = "{host}" in inturn.toml), or send the file itself'
    )


@dataclass(frozen=True, slots=True)
class Result:
    """A processor's return value with files: a JSON value, and bytes or paths by file name."""

    value: Any = None
    files: Mapping[str, bytes | Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Next:
    """A processor's return value that ends a step: the document goes to the queue of the next one.

    Without it, a document goes to the next of its `steps`, and is done after the last.
    """

    queue: str
    result: Any = None
    """The step's result, a JSON value."""
    files: Mapping[str, bytes | Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a document, processed as a document of its own. Without `content` it has that of the whole document."""

    name: str
    content: bytes | Path | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    media_type: str | None = None
    """Of its content; without content that of the whole document."""
    pages: int | None = None
    steps: Sequence[str] = ()
    """The queues that it passes through; by default those of `Parts`."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A processor's return value that splits a document.

    Each part is processed as a document of its own, at its customer's expense. When all parts have ended, the document
    itself goes to the queue `then`, whose processor gets their results.
    """

    parts: Sequence[Part | NewDocument]
    """Under `--sandbox` only `Part`: a reference or a blob may belong to another customer."""
    then: str
    steps: Sequence[str] = ()
    """The queues that a part without steps of its own passes through."""
    result: Any = None
    files: Mapping[str, bytes | Path] = field(default_factory=dict)


def json_text(result: Any) -> str:
    """Serialize a result."""
    try:
        text = _JSON_ENCODER.encode(result)
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"a result must be JSON: {error}") from error
    return text


class StoredFile(Protocol):
    """A file that an earlier step, or a part, left in its result. It is fetched when it is opened."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def media_type(self) -> str | None: ...

    def open(self) -> BinaryIO:
        """Open it for reading, from the start."""
        ...

    def path(self) -> Path:
        """Return a copy of it, for reading only; it exists until the processor returns."""
        ...


class EndedPart(Protocol):
    """A part of the document, and what became of it."""

    @property
    def number(self) -> int:
        """Its place among the parts, from 1."""
        ...

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> DocumentState:
        """Usually done or failed; a part may have been cancelled, or have expired, as well."""
        ...

    @property
    def result(self) -> Any:
        """The result of its last step; None unless it is done."""
        ...

    @property
    def error(self) -> str | None:
        """Why it failed; None unless it did."""
        ...

    @property
    def files(self) -> Mapping[str, StoredFile]:
        """The files of its result by name."""
        ...


class OpenDocument(Protocol):
    """The document that a processor gets."""

    @property
    def id(self) -> str: ...
    @property
    def customer(self) -> str: ...
    @property
    def name(self) -> str:
        """From the customer: never open a file by this name."""
        ...

    @property
    def queue(self) -> str:
        """The queue that it was claimed from."""
        ...

    @property
    def media_type(self) -> str | None:
        """From the customer: not verified."""
        ...

    @property
    def size(self) -> int | None: ...
    @property
    def uri(self) -> str | None:
        """Its address, if it was submitted as a reference."""
        ...

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...

    @property
    def step(self) -> int:
        """How many steps it has behind it."""
        ...

    @property
    def results(self) -> Mapping[str, Any]:
        """The results of the steps behind it by queue; of several steps in one queue the last."""
        ...

    def result_files(self, queue: str) -> Mapping[str, StoredFile]:
        """Return the files of that step's result by name."""
        ...

    @property
    def parts(self) -> Sequence[EndedPart]:
        """The parts that it was last split into, by number; empty if it was not."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled or its claim was lost: the result will not be recorded."""
        ...

    def open(self) -> BinaryIO:
        """Open its content for reading, from the start."""
        ...

    def path(self) -> Path:
        """Return a file with its content, for reading only; it exists until the processor returns."""
        ...

    def progress(self, done: float, total: float | None = None) -> None:
        """Report progress, which `inturn top` and the web page show."""
        ...

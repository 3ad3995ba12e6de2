"""What a processor gets, what it may return, and what it may raise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import urlsplit


class Retry(Exception):  # noqa: N818 - it asks for something; nothing went wrong with the program
    """Raised by a processor: try this document again, after so many seconds or after the usual doubling delay."""

    def __init__(self, reason: str = "the processor asked for another attempt", *, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class Reject(Exception):  # noqa: N818 - a verdict on the document, not an error of the program
    """Raised by a processor: this document can never be processed; it fails at once, with this reason."""


def describe_unfetched(uri: str) -> str:
    """Explain why a reference was not fetched, and what allows it. The rest of a uri may be a secret: hosts alone."""
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
    """What a processor may return instead of a bare value: the value, which JSON can hold, and files by name."""

    value: Any = None
    files: Mapping[str, bytes | Path] = field(default_factory=dict)


class OpenDocument(Protocol):
    """A document as a processor sees it."""

    @property
    def id(self) -> str: ...
    @property
    def customer(self) -> str: ...
    @property
    def name(self) -> str:
        """As the customer gave it: never a path to open."""
        ...

    @property
    def media_type(self) -> str | None:
        """As the customer gave it: a hint, not a fact."""
        ...

    @property
    def size(self) -> int | None: ...
    @property
    def uri(self) -> str | None:
        """Where it is, if it is a reference."""
        ...

    @property
    def attempt(self) -> int:
        """1 at first."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...

    @property
    def cancelled(self) -> bool:
        """Somebody cancelled it, or the claim was lost: stop, nobody will keep the result."""
        ...

    def open(self) -> BinaryIO:
        """Its bytes, from the beginning."""
        ...

    def path(self) -> Path:
        """A file with its bytes, to be read only, that is there until the processor returns."""
        ...

    def progress(self, done: float, total: float | None = None) -> None:
        """Tell how far the work is."""
        ...

"""Fake documents for tests of a processor alone."""

import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from inturn.model import DEFAULT_QUEUE, DocumentState
from inturn.processor_api import EndedPart, StoredFile
from inturn.worker.step_view import EarlierSteps
from inturn.worker_report import Progress

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GivenPart:
    """What became of a part, for the test of a step after a split."""

    name: str = "part"
    result: Any = None
    state: DocumentState = DocumentState.DONE
    error: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


class GivenDocument:
    """A fake document for a processor."""

    def __init__(  # noqa: PLR0913 - one for each thing a processor may look at
        self,
        content: bytes = b"",
        *,
        name: str = "document",
        customer: str = "customer",
        media_type: str | None = None,
        metadata: Mapping[str, Any] = NOTHING,
        attempt: int = 1,
        id: str = "018f3c5e-0000-7000-8000-000000000000",
        uri: str | None = None,
        queue: str = DEFAULT_QUEUE,
        step: int = 0,
        results: Mapping[str, Any] = NOTHING,
        result_files: Mapping[str, Mapping[str, bytes]] = NOTHING,
        parts: Sequence[GivenPart] = (),
    ) -> None:
        self.id = id
        self.customer = customer
        self.name = name
        self.queue = queue
        self.media_type = media_type
        self.size: int | None = len(content)
        self.uri = uri
        self.attempt = attempt
        self.metadata = metadata
        self.step = step
        self.cancelled = False
        self.progress_reports: list[Progress] = []
        """The progress that the processor reported."""
        self.earlier: GivenSteps | EarlierSteps = GivenSteps(results, result_files, parts, self._write)
        self._content = content
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def results(self) -> Mapping[str, Any]:
        """The results of earlier steps by queue."""
        return self.earlier.results

    def result_files(self, queue: str) -> Mapping[str, StoredFile]:
        """Return the files of an earlier step by name."""
        return self.earlier.result_files(queue)

    @property
    def parts(self) -> Sequence[EndedPart]:
        """The parts that it was split into."""
        return self.earlier.parts

    def open(self) -> BinaryIO:
        """Open the content."""
        return io.BytesIO(self._content)

    def path(self) -> Path:
        """Write the content to a temporary file, which `close` removes."""
        return self._write("document", self._content)

    def progress(self, done: float, total: float | None = None) -> None:
        """Append to `progress_reports`."""
        self.progress_reports.append(Progress(done, total))

    def close(self) -> None:
        """Remove the files that `path` made."""
        if isinstance(self.earlier, EarlierSteps):
            self.earlier.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _write(self, name: str, content: bytes) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="inturn-given-")
        path = Path(self._folder.name) / name
        path.write_bytes(content)
        return path


Write = Callable[[str, bytes], Path]


class GivenFile:
    """A file of a given result."""

    def __init__(self, name: str, content: bytes, write: Write) -> None:
        self.name = name
        self.size = len(content)
        self.media_type: str | None = None
        self._content = content
        self._write = write

    def open(self) -> BinaryIO:
        """Open the content."""
        return io.BytesIO(self._content)

    def path(self) -> Path:
        """Write the content to a temporary file."""
        return self._write(f"file-{id(self)}", self._content)


class NumberedPart:
    """A given part with its place."""

    def __init__(self, number: int, part: GivenPart, write: Write) -> None:
        self.number = number
        self.name = part.name
        self.state = part.state
        self.result = part.result
        self.error = part.error
        self.files = {name: GivenFile(name, content, write) for name, content in part.files.items()}


class GivenSteps:
    """Given results of earlier steps."""

    def __init__(
        self,
        results: Mapping[str, Any],
        files: Mapping[str, Mapping[str, bytes]],
        parts: Sequence[GivenPart],
        write: Write,
    ) -> None:
        self.results = {**dict.fromkeys(files), **results}
        self.parts = tuple(NumberedPart(number, part, write) for number, part in enumerate(parts, start=1))
        self._files = files
        self._write = write

    def result_files(self, queue: str) -> Mapping[str, GivenFile]:
        """Return the files of an earlier step by name; KeyError if there is no such step."""
        _ = self.results[queue]
        return {
            name: GivenFile(name, content, self._write) for name, content in self._files.get(queue, NOTHING).items()
        }

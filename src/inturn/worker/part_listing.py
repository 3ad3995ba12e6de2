"""Read the parts of a document that a child has left in its folder; see `inturn.worker.part_writer`.

The child may be in hostile hands: whatever stands there becomes valid parts of this document, or an error.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

from inturn.blobs import Blobs
from inturn.errors import InvalidInputError
from inturn.model import Document, NewDocument
from inturn.validation import clean_count

MAX_LINE_BYTES: Final = 1 << 20
"""Of one part; its metadata may have 16,384 characters."""
MAX_PACKS: Final = 1_000
"""Files with contents. They are opened one after another, and at most `STORE_THREADS` at a time."""
STORE_THREADS: Final = 8
MAX_CONTENT_BYTES: Final = 1 << 30
"""Bytes of the contents of all parts together."""


class FileSection:
    """Reads a part of a file, for `Blobs.put`. The file is open in its `with` block alone."""

    def __init__(self, path: Path, offset: int, size: int) -> None:
        self._path = path
        self._offset = offset
        self._end = offset + size
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        self._file = open_left_file(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def read(self, size: int) -> bytes:
        """Read up to so many bytes."""
        if self._file is None:
            raise ValueError("this file is not open")
        data = os.pread(self._file.fileno(), min(size, self._end - self._offset), self._offset)
        self._offset += len(data)
        return data


class ListedPart(NamedTuple):
    """A valid part, and where its content is if it has one of its own."""

    spec: NewDocument
    content: FileSection | None


class PartListing:
    """Reads the parts that a child has listed, and stores their contents as blobs."""

    def __init__(self, name: Any, folder: Path, document: Document, require_blobs: Callable[[], Blobs]) -> None:
        self._path = folder / Path(name).name
        self._folder = folder
        self._document = document
        self._require_blobs = require_blobs
        self._bytes_left = MAX_CONTENT_BYTES
        self._pack_sizes: dict[str, int] = {}

    def read(self, *, is_sandboxed: bool) -> tuple[NewDocument, ...]:
        """Return the parts, and delete what the child has written; raise InvalidInputError for a bad part.

        Nothing is stored before all parts are known to be valid.
        """
        parts: list[ListedPart] = []
        try:
            for number, line in enumerate(self._lines(), start=1):
                clean_count("the number of parts", number)
                parts.append(self._parse(number, line, is_sandboxed=is_sandboxed))
            clean_count("the number of parts", len(parts))
            return self._store(parts)
        finally:
            self._delete_files()

    def _lines(self) -> Iterator[bytes]:
        with open_left_file(self._path) as source:
            while line := source.readline(MAX_LINE_BYTES):
                yield line

    def _parse(self, number: int, line: bytes, *, is_sandboxed: bool) -> ListedPart:
        try:
            record = json.loads(line)
            if "document" not in record:
                return self._from_part(record)
            if not is_sandboxed:
                return ListedPart(NewDocument(**record["document"]), None)
        except InvalidInputError as error:
            raise InvalidInputError(f"part {number}: {error}") from error
        except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
            raise InvalidInputError(f"part {number} cannot be read: {type(error).__name__}") from error
        raise InvalidInputError(f"part {number}: in the sandbox a part is a Part, not a NewDocument")

    def _from_part(self, record: dict[str, Any]) -> ListedPart:
        if not record["steps"]:
            raise InvalidInputError("it has no steps: name its queues in Part(steps=[…]), or those of all in Parts")
        own, fields = record["content"] is not None, {name: record[name] for name in ("metadata", "pages", "steps")}
        if own:
            fields["media_type"] = record["media_type"]
        else:  # without a size, so that quotas count the content once
            fields |= {name: getattr(self._document.spec, name) for name in ("uri", "blob", "sha256", "media_type")}
        spec = NewDocument(record["name"], max_attempts=self._document.spec.max_attempts, **fields)
        return ListedPart(spec, self._section(*record["content"]) if own else None)

    def _section(self, pack: Any, offset: Any, size: Any) -> FileSection:
        if type(offset) is not int or type(size) is not int or offset < 0 or size < 0:
            raise TypeError("no place in a file")
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise InvalidInputError(f"the contents of all parts may have {MAX_CONTENT_BYTES >> 20:,} MB together")
        name = Path(pack).name
        if name not in self._pack_sizes:
            if len(self._pack_sizes) >= MAX_PACKS:
                raise InvalidInputError(f"the contents of all parts may be in {MAX_PACKS} files")
            with open_left_file(self._folder / name) as file:
                self._pack_sizes[name] = os.fstat(file.fileno()).st_size
        if offset + size > self._pack_sizes[name]:
            raise InvalidInputError("its content is not complete")
        return FileSection(self._folder / name, offset, size)

    def _store(self, parts: Sequence[ListedPart]) -> tuple[NewDocument, ...]:
        """Store contents side by side: each waits for the disk."""
        if not self._pack_sizes:
            return tuple(part.spec for part in parts)
        blobs = self._require_blobs()
        with ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="inturn-parts") as threads:
            return tuple(threads.map(partial(_store_content, blobs), parts))

    def _delete_files(self) -> None:
        for name in (self._path.name, *self._pack_sizes):
            with suppress(OSError):
                (self._folder / name).unlink()


def _store_content(blobs: Blobs, part: ListedPart) -> NewDocument:
    if part.content is None:
        return part.spec
    with part.content as content:
        blob = blobs.put(content)  # type: ignore[arg-type]  # it is only read
    return part.spec._replace(blob=blob.key, sha256=blob.sha256, size=blob.size)


def open_left_file(path: Path) -> BinaryIO:
    """Open a file that a child has left. Links, and pipes that would block, are refused: the child may be hostile."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return os.fdopen(file, "rb")
    os.close(file)
    raise InvalidInputError("a processor left something that is not a file")

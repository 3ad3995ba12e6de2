"""Open a document's content for its child, and store a result's files as blobs."""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from inturn.blobs import Blobs, FolderBlobs
from inturn.errors import BlobDamagedError, BlobError, BlobTooLargeError, FetchError, FetchRefusedError, InturnError
from inturn.fetch import Fetcher
from inturn.model import NewDocument, ResultFile
from inturn.processor_api import Reject, Retry
from inturn.queue import Queue
from inturn.validation import fits_row
from inturn.values import clean_text
from inturn.worker.part_listing import open_left_file
from inturn.worker.scratch import ScratchDir

MAX_INLINE_BYTES: Final = 1 << 20
"""Bytes of a file that the main loop itself reads and checks by its hash; a thread does it for larger ones."""
RESULT_FILE: Final = "result.json"
"""The file that holds a result too large for its row."""
MAX_FILES: Final = 1_000
MAX_FILES_BYTES: Final = 1 << 30
"""Bytes of one result's files together."""


class DocumentContent(NamedTuple):
    """A document's content: an open file, its path, and a function that closes and removes both."""

    fd: int
    path: Path
    close: Callable[[], object]


class StoredResult(NamedTuple):
    """A result as the store holds it: JSON text and files, and where the document goes."""

    text: str
    files: tuple[ResultFile, ...] = ()
    queue: str | None = None
    """That of the next step, if the processor named it."""
    parts: tuple[NewDocument, ...] | None = None
    """What the document is split into."""


class ContentIO:
    """Reads contents from blobs and uris, and writes result files to blobs."""

    def __init__(self, blobs: Blobs | None, fetcher: Fetcher | None, scratch_dir: ScratchDir | None = None) -> None:
        self._blobs = blobs
        self._fetcher = fetcher
        self._scratch_dir = scratch_dir

    def has_content(self, spec: NewDocument) -> bool:
        """Return whether there is a blob, or a uri that this worker may fetch."""
        return spec.blob is not None or (spec.uri is not None and self._fetcher is not None)

    def can_prepare_inline(self, spec: NewDocument) -> bool:
        """Return whether `prepare` is quick enough for the main loop."""
        if spec.uri is not None or spec.size is None:  # a part's share of a content has no size
            return False
        return isinstance(self._blobs, FolderBlobs) and spec.size <= MAX_INLINE_BYTES

    def prepare(self, spec: NewDocument) -> DocumentContent:
        """Open a document's content; raise Reject or Retry if that fails."""
        try:
            return self._from_blob(spec) if spec.blob is not None else self._from_uri(spec)
        except (BlobDamagedError, FetchRefusedError) as error:
            raise Reject(str(error)) from error
        except (BlobError, FetchError, OSError) as error:
            raise Retry(str(error)) from error

    def _from_blob(self, spec: NewDocument) -> DocumentContent:
        if self._blobs is None:
            raise BlobError("this worker has no blobs: start it with the --blobs that documents are submitted with")
        with ExitStack() as stack:
            path = stack.enter_context(self._blobs.local(spec.blob or "", sha256=spec.sha256, folder=self._temp_dir()))
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, file)
            return DocumentContent(file, path, stack.pop_all().close)

    def _from_uri(self, spec: NewDocument) -> DocumentContent:
        if self._fetcher is None:
            raise AssertionError("has_content was not checked")
        with ExitStack() as stack:
            copy = stack.enter_context(tempfile.NamedTemporaryFile(prefix="fetched-", dir=self._temp_dir()))
            fetched = self._fetcher.fetch(spec.uri or "", copy)
            if spec.sha256 is not None and fetched.sha256 != spec.sha256.lower():
                raise FetchRefusedError(f"{spec.uri} has other bytes than were announced: their SHA-256 differs")
            copy.flush()
            file = os.open(copy.name, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, file)
            return DocumentContent(file, Path(copy.name), stack.pop_all().close)

    def _temp_dir(self) -> Path | None:
        """Return the folder for copies; None: the system's temporary folder."""
        return None if self._scratch_dir is None else self._scratch_dir.path

    def store_result(self, text: str, files: Sequence[Sequence[str]], scratch: Path) -> StoredResult:
        """Store a result's files, which the child left in its folder, as blobs."""
        if len(files) > MAX_FILES:
            raise Reject(f"a result may have {MAX_FILES} files, not {len(files)}")
        stored, bytes_left = [], MAX_FILES_BYTES
        for name, file_name in files:
            stored.append(self._store_file(name, scratch / Path(file_name).name, bytes_left))
            bytes_left -= stored[-1].size
        if not fits_row(text):
            stored.append(self._store_bytes(RESULT_FILE, text.encode(), "application/json"))
            text = "null"
        if len({file.name for file in stored}) < len(stored):
            raise Reject(f"a result has two files of one name, or one called {RESULT_FILE}")
        return StoredResult(text, tuple(sorted(stored)))

    def _store_file(self, name: str, path: Path, max_bytes: int) -> ResultFile:
        """Move a file into the blobs."""
        name = clean_text("a result file's name", name)
        with open_left_file(path) as source:
            try:
                blob = self.require_blobs().put(source, limit=max_bytes)
            except BlobTooLargeError as error:
                raise Reject(f"a result's files may have {MAX_FILES_BYTES >> 20:,} MB together") from error
        path.unlink(missing_ok=True)
        return ResultFile(name, blob.key, blob.size, blob.sha256)

    def _store_bytes(self, name: str, data: bytes, media_type: str) -> ResultFile:
        with self.require_blobs().begin() as writing:
            writing.write(data)
            blob = writing.commit()
        return ResultFile(name, blob.key, blob.size, blob.sha256, media_type)

    def require_blobs(self) -> Blobs:
        """Return the blobs; raise BlobError if this worker has none."""
        if self._blobs is None:
            raise BlobError("a result with files, or one larger than 256 KB, needs a worker with --blobs")
        return self._blobs


def read_result(queue: Queue, blobs: Blobs | None, id_: str) -> Any:
    """Read a done document's result from its row or its blob; None before it is done."""
    return json.loads(read_result_text(queue, blobs, id_))


def read_result_text(queue: Queue, blobs: Blobs | None, id_: str) -> str:
    """Read a done document's result as stored JSON text, without parsing it; `null` before it is done."""
    return stored_text(queue.result_json(id_), queue.files(id_), blobs)


def stored_text(text: str | None, files: Sequence[ResultFile], blobs: Blobs | None) -> str:
    """Read a result of a document or of one of its steps as JSON text, from its row or its blob."""
    large = next((file for file in files if file.name == RESULT_FILE), None)
    if large is None:
        return text or "null"
    if blobs is None:
        raise InturnError("this result is stored in the blobs: name their place with --blobs")
    blobs.check(large.blob, large.sha256)
    with blobs.open(large.blob) as source:
        return source.read().decode()


def own_files(files: Sequence[ResultFile]) -> list[ResultFile]:
    """Return the files that a processor returned, without the one that holds a result too large for its row."""
    return [file for file in files if file.name != RESULT_FILE]

"""Bytes on their way: a document's to the child that processes it, and a result's files into the blobs."""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from inturn.blobs import Blobs, FolderBlobs
from inturn.errors import BlobDamagedError, BlobError, BlobTooLargeError, FetchError, FetchRefusedError, InturnError
from inturn.ids import clean_id
from inturn.model import NewDocument, ResultFile, clean_text
from inturn.processing.fetch import Fetcher
from inturn.processing.handler import Reject, Retry
from inturn.processing.workplace import Workplace
from inturn.queue import Queue, fits_row

SMALL: Final = 1 << 20
"""Bytes of a file that is read and compared with its hash on the spot; larger ones wait for nobody in a thread."""
RESULT_FILE: Final = "result.json"
"""The file that holds a result too large for its row."""
MAX_FILES: Final = 1_000
MAX_FILES_SIZE: Final = 1 << 30
"""Bytes of one result's files together: whoever makes more has a place of its own for them."""


class Bytes(NamedTuple):
    """A document's bytes: a file opened for reading, where it lies, and how to let go of both."""

    file: int
    path: Path
    release: Callable[[], object]


class Kept(NamedTuple):
    """A result as the store keeps it."""

    text: str
    files: tuple[ResultFile, ...] = ()


class Desk:
    """Knows where bytes come from and where they go."""

    def __init__(self, blobs: Blobs | None, fetcher: Fetcher | None, workplace: Workplace | None = None) -> None:
        self._blobs = blobs
        self._fetcher = fetcher
        self._workplace = workplace

    def has_bytes(self, given: NewDocument) -> bool:
        """Whether there is anything to prepare."""
        return given.blob is not None or (given.uri is not None and self._fetcher is not None)

    def is_quick(self, given: NewDocument) -> bool:
        """Whether preparing it keeps nobody waiting."""
        return isinstance(self._blobs, FolderBlobs) and given.uri is None and (given.size or 0) <= SMALL

    def prepare(self, given: NewDocument) -> Bytes:
        """A document's bytes; Reject or Retry when they cannot be had."""
        try:
            return self._from_blob(given) if given.blob is not None else self._from_uri(given)
        except (BlobDamagedError, FetchRefusedError) as wrong:
            raise Reject(str(wrong)) from wrong
        except (BlobError, FetchError, OSError) as wrong:
            raise Retry(str(wrong)) from wrong

    def _from_blob(self, given: NewDocument) -> Bytes:
        if self._blobs is None:
            raise BlobError("this worker has no blobs: start it with the --blobs that documents are submitted with")
        with ExitStack() as stack:
            path = stack.enter_context(self._blobs.local(given.blob or "", sha256=given.sha256, folder=self._folder()))
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, file)
            return Bytes(file, path, stack.pop_all().close)

    def _from_uri(self, given: NewDocument) -> Bytes:
        if self._fetcher is None:
            raise AssertionError("nothing to fetch with")
        with ExitStack() as stack:
            kept = stack.enter_context(tempfile.NamedTemporaryFile(prefix="fetched-", dir=self._folder()))
            fetched = self._fetcher.fetch(given.uri or "", kept)
            if given.sha256 is not None and fetched.sha256 != given.sha256.lower():
                raise FetchRefusedError(f"{given.uri} has other bytes than were announced: their SHA-256 differs")
            kept.flush()
            file = os.open(kept.name, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, file)
            return Bytes(file, Path(kept.name), stack.pop_all().close)

    def _folder(self) -> Path | None:
        """Where copies lie; None: among the machine's temporary files."""
        return None if self._workplace is None else self._workplace.path

    def keep(self, text: str, files: Sequence[Sequence[str]], scratch: Path) -> Kept:
        """A result, with its files picked up from the folder that the child left them in."""
        if len(files) > MAX_FILES:
            raise Reject(f"a result may have {MAX_FILES} files, not {len(files)}")
        kept, room = [], MAX_FILES_SIZE
        for name, left in files:
            kept.append(self._pick_up(name, scratch / Path(left).name, room))
            room -= kept[-1].size
        if not fits_row(text):
            kept.append(self._file_of(RESULT_FILE, text.encode(), "application/json"))
            text = "null"
        if len({file.name for file in kept}) < len(kept):
            raise Reject(f"a result has two files of one name, or one called {RESULT_FILE}")
        return Kept(text, tuple(sorted(kept)))

    def _pick_up(self, name: str, left: Path, room: int) -> ResultFile:
        """The child may be in hostile hands: what it left is opened as a plain file or not at all."""
        name = clean_text("a result file's name", name)
        descriptor = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as source:
            try:
                blob = self._must_have_blobs().put(source, limit=room)
            except BlobTooLargeError as wrong:
                raise Reject(f"a result's files may have {MAX_FILES_SIZE >> 20:,} MB together") from wrong
        left.unlink(missing_ok=True)
        return ResultFile(name, blob.key, blob.size, blob.sha256)

    def _file_of(self, name: str, data: bytes, media_type: str) -> ResultFile:
        with self._must_have_blobs().begin() as writing:
            writing.write(data)
            blob = writing.commit()
        return ResultFile(name, blob.key, blob.size, blob.sha256, media_type)

    def _must_have_blobs(self) -> Blobs:
        if self._blobs is None:
            raise BlobError("a result with files, or one larger than 256 KB, needs a worker with --blobs")
        return self._blobs


def read_result(queue: Queue, blobs: Blobs | None, id_: str) -> Any:
    """A done document's result, wherever it is kept; None before."""
    return json.loads(read_result_text(queue, blobs, id_))


def read_result_text(queue: Queue, blobs: Blobs | None, id_: str) -> str:
    """Read a done document's result as the JSON text that was stored, however deeply it is nested; null before."""
    files = {file.name: file for file in queue.files(id_)}
    if RESULT_FILE not in files:
        return queue.store.result(clean_id(id_)) or "null"
    if blobs is None:
        raise InturnError("this result is kept in the blobs: say where they are, with --blobs")
    blobs.check(files[RESULT_FILE].blob, files[RESULT_FILE].sha256)
    with blobs.open(files[RESULT_FILE].blob) as source:
        return source.read().decode()

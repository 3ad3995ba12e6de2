"""Answer what a child asks about the earlier steps of its document: each answer is an open file.

A child opens neither store nor blobs. It asks when its processor looks, so a document whose processor does not look
costs nothing. A question names steps, parts and files, never blobs: what is answered belongs to the document.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from inturn.blobs import Blobs
from inturn.errors import BlobDamagedError, BlobError, InturnError, NotFoundError
from inturn.model import Document, ResultFile
from inturn.processor_api import Reject, Retry
from inturn.queue import Queue
from inturn.store_types import PartResult
from inturn.values import MAX_NAME_LENGTH
from inturn.worker.content import RESULT_FILE
from inturn.worker.scratch import ScratchDir
from inturn.worker.step_view import AskKind

PARTS_PER_QUERY: Final = 100
"""Their results may have 25 MB together."""


class Question(NamedTuple):
    """What a child asks."""

    kind: AskKind
    number: int = 0
    """Of the step or part whose file it wants."""
    name: str | None = None
    """Of the file; None: the result itself, if that is too large for its row."""

    @classmethod
    def parse(cls, values: Sequence[Any]) -> "Question":
        """Validate a child's question; raise ValueError or TypeError for anything else."""
        kind, number, name = values
        if type(number) is not int or not (name is None or (isinstance(name, str) and len(name) <= MAX_NAME_LENGTH)):
            raise ValueError("no question")
        return cls(AskKind(kind), number, name)


class StepReader:
    """Reads results of steps and parts from the store, and their files from the blobs. Threads may call it."""

    def __init__(self, queue: Queue, blobs: Blobs | None, scratch_dir: ScratchDir | None = None) -> None:
        self._queue = queue
        self._blobs = blobs
        self._scratch_dir = scratch_dir

    def answer(self, document: Document, question: Question) -> int:
        """Return the descriptor of an open file, which the caller closes; raise Reject or Retry if that fails."""
        try:
            match question.kind:
                case AskKind.RESULTS:
                    return self._write_lines(self._results(document))
                case AskKind.PARTS:
                    return self._write_lines(map(_part_to_dict, self._parts(document)))
                case AskKind.STEP_FILE:
                    return self._open(self._step_files(document, question.number), question.name)
                case AskKind.PART_FILE:
                    return self._open(self._part_files(document, question.number), question.name)
        except (BlobDamagedError, NotFoundError) as error:
            raise Reject(str(error)) from error
        except (InturnError, OSError) as error:
            raise Retry(str(error)) from error

    def _results(self, document: Document) -> Iterator[dict[str, Any]]:
        for result in self._queue.results(document.id):
            if result.step < document.step:
                yield {"step": result.step, "queue": result.queue, **_result_to_dict(result.result, result.files)}

    def _parts(self, document: Document) -> Iterator[PartResult]:
        last = 0
        while parts := self._queue.parts(document.id, limit=PARTS_PER_QUERY, after=last):
            yield from parts
            last = parts[-1].part

    def _step_files(self, document: Document, step: int) -> Sequence[ResultFile]:
        results = (result for result in self._queue.results(document.id) if result.step == step < document.step)
        return next((result.files for result in results), ())

    def _part_files(self, document: Document, number: int) -> Sequence[ResultFile]:
        if number < 1:
            return ()
        parts = self._queue.parts(document.id, limit=1, after=number - 1)
        return parts[0].files if parts and parts[0].part == number else ()

    def _open(self, files: Sequence[ResultFile], name: str | None) -> int:
        file = next((file for file in files if file.name == (name or RESULT_FILE)), None)
        if file is None:
            raise NotFoundError(f"there is no such file of an earlier step: {name or RESULT_FILE!r}")
        if self._blobs is None:
            raise BlobError("this worker has no blobs: start it with the --blobs of the workers of earlier steps")
        with self._blobs.local(file.blob, sha256=file.sha256, folder=self._temp_dir()) as path:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def _write_lines(self, records: Iterable[dict[str, Any]]) -> int:
        """Write a line of JSON for each record into a file without a name; return it, open for reading alone."""
        with tempfile.NamedTemporaryFile("w", prefix="steps-", dir=self._temp_dir(), encoding="utf-8") as file:
            for record in records:
                json.dump(record, file)
                file.write("\n")
            file.flush()
            return os.open(file.name, os.O_RDONLY | os.O_CLOEXEC)

    def _temp_dir(self) -> Path | None:
        return None if self._scratch_dir is None else self._scratch_dir.path


def _result_to_dict(result: str | None, files: Sequence[ResultFile]) -> dict[str, Any]:
    return {
        "result": result,
        "is_in_file": any(file.name == RESULT_FILE for file in files),
        "files": [[file.name, file.size, file.media_type] for file in files if file.name != RESULT_FILE],
    }


def _part_to_dict(part: PartResult) -> dict[str, Any]:
    values = _result_to_dict(part.result, part.files)
    return {"number": part.part, "name": part.name, "state": part.state, "error": part.error, **values}

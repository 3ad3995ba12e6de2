"""Read the result of a step, or of a part, from its row or its blob."""

from collections.abc import Iterable, Sequence

from inturn.blobs import Blobs
from inturn.errors import InturnError
from inturn.model import ResultFile
from inturn.worker.content import RESULT_FILE


def read_stored_text(result: str | None, files: Iterable[ResultFile], blobs: Blobs | None) -> str:
    """Return a result as JSON text, without parsing it; `null` if there is none."""
    file = next((file for file in files if file.name == RESULT_FILE), None)
    if file is None:
        return result or "null"
    if blobs is None:
        raise InturnError("this result is stored in the blobs: name their place with --blobs")
    blobs.check(file.blob, file.sha256)
    with blobs.open(file.blob) as source:
        return source.read().decode()


def own_files(files: Sequence[ResultFile]) -> list[ResultFile]:
    """Return the files that a processor returned, without the one that holds a result too large for its row."""
    return [file for file in files if file.name != RESULT_FILE]

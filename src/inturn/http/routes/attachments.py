"""Serve stored bytes: documents' contents and files of results."""

from collections.abc import Iterator
from typing import Any, BinaryIO, Final
from urllib.parse import quote

from fastapi.responses import StreamingResponse

from inturn.errors import BlobNotFoundError
from inturn.http.scope import CallerScope
from inturn.http.uploads.multipart import CHUNK_BYTES

BYTES_RESPONSE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The bytes, as an attachment.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def attachment_response(scope: CallerScope, blob: str, name: str, size: int | None) -> StreamingResponse:
    """Serve bytes as an attachment of no specific type, so that no browser runs them as a page of this server."""
    if scope.app_state.blobs is None:
        raise BlobNotFoundError("this server has no files: it was started without --blobs")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    if size is not None:
        headers["Content-Length"] = str(size)
    opened = scope.app_state.blobs.open(blob)
    return StreamingResponse(_read_chunks(opened), headers=headers, media_type="application/octet-stream")


def _read_chunks(source: BinaryIO) -> Iterator[bytes]:
    with source:
        while chunk := source.read(CHUNK_BYTES):
            yield chunk

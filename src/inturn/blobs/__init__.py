"""Stores the bytes of documents under UUIDs, completely or not at all, in a folder or an object store."""

import os
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from inturn.blobs.base import Blob, Blobs, BlobWriter
from inturn.blobs.folder import FolderBlobs
from inturn.errors import BlobError, InvalidInputError

__all__ = ["Blob", "BlobWriter", "Blobs", "FolderBlobs", "local_folder", "open_blobs"]

_S3_OPTIONS: Final = frozenset({"endpoint", "region"})
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_CREDENTIALS_ERROR: Final = (
    "the address of the blobs may not hold credentials, since addresses end up in logs: "
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
)


def open_blobs(url: str) -> Blobs:
    """Open a blob store by its address.

    A path or `file:///path` is a folder. `s3://bucket/prefix` is S3 or a compatible service, with the options
    `?endpoint=…&region=…`. `gs://bucket/prefix` and `az://container/prefix` work too. Credentials come only from the
    environment.
    """
    if "\0" in url or not url:
        raise InvalidInputError("the address of the blobs must be a path or s3://bucket/prefix, and not empty")
    if "://" not in url:
        return FolderBlobs(Path(url))
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidInputError("the address of the blobs is not valid; give a path or s3://bucket/prefix") from error
    if parts.scheme == "file":
        return FolderBlobs(_file_path(parts))
    if parts.scheme not in {"s3", "gs", "az"}:
        raise InvalidInputError(f"no blob store is known by {parts.scheme}://; give a path or s3://bucket/prefix")
    return _open_object_store(parts)


def local_folder(url: str) -> Path | None:
    """Return the local folder of an address; None for an object store."""
    parts = urlsplit(url) if "://" in url else None
    if parts is None:
        return Path(url)
    return _file_path(parts) if parts.scheme == "file" else None


def _file_path(parts: SplitResult) -> Path:
    if parts.netloc not in {"", "localhost"} or not parts.path or parts.query or parts.fragment:
        raise InvalidInputError("a folder's address is file:///and/its/path, with three slashes; or give the bare path")
    return Path(unquote(parts.path))


def _open_object_store(parts: SplitResult) -> Blobs:
    bucket, prefix = _bucket(parts), _prefix(parts.path)
    options = _parse_options(parts)
    try:
        from inturn.blobs import object_store  # noqa: PLC0415 - a folder needs no obstore
    except ModuleNotFoundError as missing:
        raise BlobError("blobs in an object store need another package: pip install 'inturn[s3]'") from missing
    if parts.scheme != "s3":
        return object_store.open_by_url(f"{parts.scheme}://{bucket}/{prefix}".rstrip("/"))
    endpoint = options.get("endpoint") or next(
        (os.environ[name] for name in _ENDPOINT_VARIABLES if os.environ.get(name)), None
    )
    return object_store.open_s3(bucket, prefix, endpoint, options.get("region"))


def _bucket(parts: SplitResult) -> str:
    if "@" in parts.netloc:
        raise InvalidInputError(_CREDENTIALS_ERROR)
    if not parts.netloc or ":" in parts.netloc or parts.fragment:
        raise InvalidInputError(f"write the address of the blobs as {parts.scheme}://bucket/prefix")
    return parts.netloc


def _prefix(path: str) -> str:
    prefix = unquote(path).strip("/")
    if prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/")):
        raise InvalidInputError(f"a prefix is made of names with one / between them, not {prefix!r}")
    return prefix


def _parse_options(parts: SplitResult) -> dict[str, str]:
    """Parse the query of an address. Errors do not quote its values, since one may be a secret."""
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(pairs)
    if any(word in name.lower() for name in options for word in ("key", "secret", "token", "password", "credential")):
        raise InvalidInputError(_CREDENTIALS_ERROR)
    if parts.scheme != "s3" and options:
        raise InvalidInputError(f"{parts.scheme}:// takes no options after a question mark; use the environment")
    if len(pairs) != len(options) or not _S3_OPTIONS.issuperset(options) or not all(options.values()):
        raise InvalidInputError("s3:// takes the options ?endpoint=… and &region=…, each at most once and not empty")
    endpoint = urlsplit(options.get("endpoint", "https://s3"))
    if "@" in endpoint.netloc:
        raise InvalidInputError(_CREDENTIALS_ERROR)
    if endpoint.scheme not in {"http", "https"} or not endpoint.netloc:
        raise InvalidInputError("an endpoint is an address such as https://s3.example.com or http://127.0.0.1:9000")
    return options

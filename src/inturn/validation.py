"""Validate the arguments of a queue's methods, and serialize results."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

from inturn.errors import InvalidInputError
from inturn.model import DEFAULT_QUEUE, NewDocument, clean_queue
from inturn.processor_api import json_text
from inturn.store_types import Work
from inturn.values import SECOND, clean_text, clean_time

MAX_BATCH: Final = 10_000
MAX_RESULT_BYTES: Final = 256 * 1024
MAX_ERROR_LENGTH: Final = 8_192
MIN_LEASE: Final = 1_000
MAX_LEASE: Final = 86_400 * SECOND


def fingerprint(documents: Sequence[NewDocument]) -> str:
    """Hash the submitted documents without their blob keys, to recognize a repeated call."""
    digest = hashlib.sha256()
    for document in documents:
        values = document.to_dict()
        del values["blob"]
        if values["group"] is None:
            del values["group"]  # keys stored before there were groups are recognized
        if values["queue"] == DEFAULT_QUEUE:
            del values["queue"]  # and those before there were queues
        if not values["steps"]:
            del values["steps"]
        digest.update(json.dumps(values, sort_keys=True, ensure_ascii=True).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def clean_queues(names: Sequence[str]) -> tuple[str, ...]:
    """Validate the names of queues: at least one, each once."""
    if isinstance(names, str) or not names:
        raise InvalidInputError(f"queues must be a list of at least one name, not {names!r}")
    return tuple(dict.fromkeys(map(clean_queue, names)))


def clean_lease(lease: int) -> int:
    """Validate a lease: 1 millisecond to 1 day."""
    if type(lease) is not int or not MIN_LEASE <= lease <= MAX_LEASE:
        raise InvalidInputError(
            f"a lease must be 1 millisecond to 1 day in microseconds, not {lease!r}; for seconds write seconds(…)",
        )
    return lease


def clean_work(work: Work | None) -> Work | None:
    """Validate the processing times of an outcome."""
    if work is None:
        return None
    return Work(clean_time("began_after", work.began_after), clean_time("worked", work.worked))


def clean_error(error: str) -> str:
    """Cut an error text to the stored length, and replace characters that databases refuse."""
    return str(error).replace("\0", "�").encode(errors="replace").decode()[:MAX_ERROR_LENGTH]


def fits_row(text: str) -> bool:
    """Return whether a serialized result is small enough for a row."""
    return len(text) <= MAX_RESULT_BYTES and (text.isascii() or len(text.encode()) <= MAX_RESULT_BYTES)


def result_text(result: Any) -> str:
    """Serialize a result that must be small enough for a row."""
    text = json_text(result)
    if not fits_row(text):
        size = len(text.encode())
        raise InvalidInputError(
            f"a result may have {MAX_RESULT_BYTES} bytes as JSON, not {size}; keep large output in a file"
        )
    return text


def clean_count(name: str, n: int) -> int:
    """Validate a batch size; `name` is its name in the error."""
    if type(n) is not int or not 1 <= n <= MAX_BATCH:
        raise InvalidInputError(f"{name} must be a whole number from 1 to {MAX_BATCH}, not {n!r}")
    return n


def clean_idempotency_key(key: str | None) -> str | None:
    """Validate an optional idempotency key."""
    return None if key is None else clean_text("an idempotency key", key)

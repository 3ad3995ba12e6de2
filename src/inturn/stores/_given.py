"""What documents that come in together have, by column."""

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from inturn.model import NO_METADATA, NewDocument

GIVEN: Final = (
    "cost", "max_attempts", "start_by", "name", "uri", "blob", "sha256", "size", "media_type", "batch", "pages",
    "delay",
)  # fmt: skip
"""What is kept of a document as it was given; its metadata is kept as JSON."""
values_of: Final = attrgetter(*GIVEN)


def columns_of(documents: Sequence[NewDocument]) -> dict[str, list[Any]]:
    """A list for each column."""
    return dict(zip(GIVEN, map(list, zip(*map(values_of, documents), strict=True)), strict=True))


def are_alike(values: Sequence[Any]) -> bool:
    """Whether all of them are the same."""
    return values.count(values[0]) == len(values)


def metadata_of(given: NewDocument) -> str | None:
    """As JSON."""
    return None if given.metadata is NO_METADATA else json.dumps(dict(given.metadata))

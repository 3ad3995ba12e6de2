"""What documents that come in together have, by column."""

import json
from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from inturn.model import NO_METADATA, NewDocument, Receipt
from inturn.policy.priority import CheckedMany

_receipt: Final = partial(tuple.__new__, Receipt)
"""A receipt from its fields, without a look at them: one is made for every document."""


def columns_of(documents: Sequence[NewDocument]) -> dict[str, list[Any]]:
    """A list for each column."""
    return dict(zip(NewDocument._fields, map(list, zip(*documents, strict=True)), strict=True))


def are_alike(values: Sequence[Any]) -> bool:
    """Whether all of them are the same."""
    return values.count(values[0]) == len(values)


def json_of(metadata: MappingProxyType[str, Any]) -> str | None:
    """As it is kept."""
    return None if metadata is NO_METADATA else json.dumps(metadata.copy())


def json_of_all(several: Sequence[MappingProxyType[str, Any]]) -> str | None:
    """As one JSON array, written in a third of the time that one by one takes; None where nobody has any."""
    if all(each is NO_METADATA for each in several):
        return None
    return json.dumps([None if each is NO_METADATA else each.copy() for each in several])


def receipts_of(ids: Sequence[str], checked: CheckedMany) -> tuple[Receipt, ...]:
    """What the submitter gets."""
    levels, last = checked.level_of_each(), checked.counter.count
    return tuple(map(_receipt, zip(ids, levels, range(last + len(levels) - 1, last - 1, -1), strict=True)))

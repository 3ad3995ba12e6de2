"""Columns and receipts of documents that are submitted together."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from inturn.model import DOCUMENT_COLUMNS, NewDocument, Receipt
from inturn.policy.priority import BatchCheckResult

_make_receipt: Final = partial(tuple.__new__, Receipt)
"""Makes a receipt without checks: one is made for every document."""


def document_columns(documents: Sequence[NewDocument]) -> dict[str, list[Any]]:
    """A list for each column."""
    return dict(zip(DOCUMENT_COLUMNS, map(list, zip(*documents, strict=True)), strict=True))


def all_equal(values: Sequence[Any]) -> bool:
    """Whether all values are equal."""
    return values.count(values[0]) == len(values)


def build_receipts(ids: Sequence[str], checked: BatchCheckResult) -> tuple[Receipt, ...]:
    """The receipts of one call."""
    levels, last = checked.document_levels(), checked.counter.count
    return tuple(map(_make_receipt, zip(ids, levels, range(last + len(levels) - 1, last - 1, -1), strict=True)))

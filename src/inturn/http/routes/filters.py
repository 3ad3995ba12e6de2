"""The filters that lists and counts of documents share."""

from typing import Annotated

from fastapi import Depends, Query

from inturn.model import DocumentState
from inturn.store_types import DocumentFilter, DocumentTime, PartsChoice
from inturn.values import MAX_TIME

PageLimit = Annotated[int, Query(ge=1, le=1_000)]
Since = Annotated[int | None, Query(ge=0, le=MAX_TIME, description="Only from this time on.")]
Until = Annotated[int | None, Query(ge=0, le=MAX_TIME, description="Only before this time.")]
Parts = Annotated[
    PartsChoice | None,
    Query(
        description="Whether parts of split documents are among them. Left out: `exclude`, or `include` if `queue` or"
        " `parent` is given."
    ),
]


def document_filter(  # noqa: PLR0913 - one parameter for each filter
    *,
    customer: str | None = None,
    level: Annotated[int | None, Query(ge=1, le=9)] = None,
    batch: str | None = None,
    group: str | None = None,
    queue: Annotated[str | None, Query(description="The queue that it is in, or ended in.", examples=["ocr"])] = None,
    parent: Annotated[str | None, Query(description="Only the parts of this document.")] = None,
    parts: Parts = None,
    text: Annotated[str | None, Query(description="Part of the name.")] = None,
    since: Since = None,
    until: Until = None,
    time: Annotated[
        DocumentTime, Query(description="The time that `since` and `until` are about.")
    ] = DocumentTime.SUBMITTED,
) -> DocumentFilter:
    """Build a filter from the query of a request."""
    where = DocumentFilter(None, customer, level, batch, text, group, queue=queue, parent=parent)
    return where.within(time, since, until).with_parts(parts)


def with_states(where: DocumentFilter, states: list[DocumentState] | None) -> DocumentFilter:
    """Restrict a filter to some states."""
    return where._replace(states=frozenset(states)) if states else where


Where = Annotated[DocumentFilter, Depends(document_filter)]

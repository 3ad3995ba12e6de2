"""List the documents that wait in one queue in the order in which a claim would take them."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from inturn.insights.lanes_ahead import count_ahead
from inturn.model import Document, DocumentState
from inturn.policy import Order
from inturn.queue_reader import QueueReader
from inturn.store_answers import SchedulerSnapshot
from inturn.store_types import DocumentFilter, DocumentSort

MAX_READ: Final = 1_000
"""Waiting documents that are read, the oldest: what is newer is not listed."""
LaneKey = tuple[str, int]


class PlacedDocument(NamedTuple):
    """A waiting document, and how many would be taken before it; None while its lane is closed."""

    document: Document
    place: int | None


def waiting_in_order(queue: QueueReader, name: str, *, limit: int) -> list[PlacedDocument]:
    """Return up to `limit` documents that wait in a queue: by place, then those that are held, oldest first.

    As with every place, the overdue slot is left out of account.
    """
    where = DocumentFilter(frozenset({DocumentState.WAITING}), queue=name)
    page = queue.documents(where, limit=MAX_READ, sort=DocumentSort.OLDEST)
    lanes: defaultdict[LaneKey, list[Document]] = defaultdict(list)
    for document in page.items:
        lanes[document.customer, document.lane_level].append(document)
    snapshot = queue.scheduler_snapshot(name)
    placed: list[PlacedDocument] = []
    for number, index in enumerate(_in_order(snapshot)):
        lane = snapshot.lanes[index]
        documents = lanes.pop((lane.customer, lane.level), [])
        if number < limit:  # the head of a lane is taken after those of the lanes before it
            placed += _placed(queue, snapshot, index, documents, limit)
    placed.sort(key=lambda item: (item.place or 0, item.document.seq))
    held = sorted((document for documents in lanes.values() for document in documents), key=lambda item: item.seq)
    return [*placed, *(PlacedDocument(document, None) for document in held)][:limit]


def _in_order(snapshot: SchedulerSnapshot) -> Sequence[int]:
    """Return the indices of the open lanes in the order in which their heads are taken."""
    indices = range(len(snapshot.lanes))
    if snapshot.policy.order is Order.FAIR:
        return indices
    return sorted(indices, key=lambda index: (snapshot.lanes[index].level, snapshot.lanes[index].head.seq))


def _placed(
    queue: QueueReader, snapshot: SchedulerSnapshot, index: int, documents: Sequence[Document], limit: int
) -> list[PlacedDocument]:
    """Place the documents of one open lane, as far as they may be among the first `limit`."""
    has_groups = len({document.spec.group for document in documents}) > 1
    placed: list[PlacedDocument] = []
    for number, document in enumerate(documents):
        if number >= limit and not has_groups:
            break
        ahead = queue.ahead_in_lane(document.id) if has_groups else number
        place = count_ahead(snapshot, index, ahead, document.seq).place
        if place < limit:
            placed.append(PlacedDocument(document, place))
        elif not has_groups:
            break
    return placed

"""Index documents for searches, beside the history: one process at a time does both."""

import time
from collections.abc import Callable
from typing import Final

from inturn.queue import Queue

MAX_SHARE: Final = 0.04
"""Part of the time that indexing may take, of all processes together."""
MAX_SECONDS: Final = 0.5
"""Of one go. A part of the index that has begun is finished."""
PART_DOCUMENTS: Final = 1_000


class SearchIndexer:
    """Indexes a backlog bit by bit."""

    def __init__(self, queue: Queue, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._queue = queue
        self._monotonic = monotonic
        self._ended_at = monotonic()

    def index(self) -> int:
        """Index what there is, for a part of the time since the last call; return the number of documents."""
        began, indexed = self._monotonic(), 0
        until = began + min(MAX_SECONDS, MAX_SHARE * (began - self._ended_at))
        while self._monotonic() < until and (n := self._queue.index_documents(limit=PART_DOCUMENTS)):
            indexed += n
        self._ended_at = self._monotonic()
        return indexed

"""Store what a child's reply consists of: the files of a result, and the parts of a document."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from inturn.errors import InvalidInputError
from inturn.model import Document, clean_queue
from inturn.processor_api import Reject
from inturn.queue import Queue
from inturn.validation import MAX_RESULT_BYTES
from inturn.worker.channel import JsonText
from inturn.worker.content import ContentIO, StoredResult
from inturn.worker.invoke import SUCCESSES, InvocationStatus
from inturn.worker.part_listing import PartListing
from inturn.worker.step_reader import StepReader


class Reply(NamedTuple):
    """What a child replies about a document."""

    status: InvocationStatus
    value: Any
    """Of a success a `JsonText`; with RETRY the seconds until then, or None."""
    reason: str
    files: Any
    """Pairs of a file's name and its name in the child's folder."""
    queue: Any = None
    """With NEXT and SPLIT: the queue of the next step."""
    listing: Any = None
    """With SPLIT: the name of the file that lists the parts."""

    @classmethod
    def parse(cls, status: InvocationStatus, reason: Any, files: Any, rest: Sequence[Any]) -> "Reply":
        """Build a reply from a message; raise TypeError or ValueError for a malformed one."""
        *step, value = rest
        if status in SUCCESSES and not isinstance(value, JsonText):
            raise TypeError("a result that the channel has not checked")
        if len(step) != STEP_VALUES.get(status, 0):
            raise ValueError("a reply without the queue that the document goes to")
        return cls(status, value, str(reason), files, *step)

    @property
    def is_small(self) -> bool:
        """Whether all of it fits into the document's row."""
        return not self.files and self.status is not InvocationStatus.SPLIT and self.value.size <= MAX_RESULT_BYTES


STEP_VALUES = {InvocationStatus.NEXT: 1, InvocationStatus.SPLIT: 2}
"""Values of a message about the next step: its queue, and the listing of parts."""


class DocumentIO(NamedTuple):
    """All that a worker reads and writes for its children."""

    content: ContentIO
    replies: "ReplyStore"
    steps: StepReader


class ReplyStore:
    """Stores replies. Threads may call it.

    A processor in the sandbox may be in hostile hands. It makes no queues: a store has a hundred at most.
    """

    def __init__(self, content: ContentIO, queue: Queue, *, is_sandboxed: bool) -> None:
        self._content = content
        self._queue = queue
        self._is_sandboxed = is_sandboxed

    def can_store_inline(self, reply: Reply) -> bool:
        """Return whether `store` is quick enough for the main loop."""
        return reply.is_small and not (self._is_sandboxed and reply.queue is not None)

    def store(self, reply: Reply, document: Document, scratch: Path) -> StoredResult:
        """Store a successful reply; raise Reject if it is none that a document could have."""
        try:
            parts = None
            if reply.status is InvocationStatus.SPLIT:
                listing = PartListing(reply.listing, scratch, document, self._content.require_blobs)
                parts = listing.read(is_sandboxed=self._is_sandboxed)
            if reply.queue is not None:
                self._require_queues(
                    {clean_queue(reply.queue), *(name for part in parts or () for name in part.steps)}, document
                )
        except InvalidInputError as error:
            raise Reject(str(error)) from error
        if reply.is_small:
            return StoredResult(reply.value.json, (), reply.queue)
        result = self._content.store_result(reply.value.json, reply.files, scratch)
        return result._replace(queue=reply.queue, parts=parts)

    def _require_queues(self, names: set[str], document: Document) -> None:
        """Refuse queues that a processor in the sandbox may not name."""
        if not self._is_sandboxed or names.issubset(document.ahead):
            return
        missing = names - set(document.ahead) - {status.name for status in self._queue.queues()}
        if missing:
            name = min(missing)
            raise InvalidInputError(
                f"there is no queue {name!r}, and a processor in the sandbox makes none: make it with"
                f" inturn queues set {name}"
            )

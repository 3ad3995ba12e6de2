"""Human steps: people take documents from a queue by hand, and finish them with what a form asks for.

A document that a person has taken is a claim like that of a worker, named `person:` and the person's name. It ends by
the same rules: its lease passes unless it is extended, and its fence lets only one outcome be recorded.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from inturn.errors import IllegalTransitionError, InvalidInputError, StaleFenceError
from inturn.forms import Field, clean_answer, parse_form
from inturn.model import Claim, Document, DocumentState, QueueStatus, steps_after
from inturn.queue import Queue
from inturn.store_types import PERSON_PREFIX, AckStatus, LeaseStatus, Outcome, OutcomeKind, StepResult, is_person
from inturn.validation import result_text
from inturn.values import MAX_NAME_LENGTH, SECOND

DEFAULT_PERSON_LEASE: Final = 1_800 * SECOND
FINISHED: Final = (OutcomeKind.DONE, OutcomeKind.NEXT)


class Taken(NamedTuple):
    """What a person got who wanted a document, and how many wait now.

    Without a claim, a pause or a limit holds those that wait.
    """

    claim: Claim | None
    waiting: int


class HumanSteps:
    """What one person does with the documents of queues that people serve by hand (`QueueSettings.manual`)."""

    def __init__(self, queue: Queue, person: str) -> None:
        self._queue = queue
        self._worker = person_worker(person)

    def take(self, name: str, *, lease: int = DEFAULT_PERSON_LEASE) -> Taken:
        """Take the next document of a queue, in the queue's order."""
        status = self.manual_queue(name)
        claims = self._queue.claim(self._worker, 1, queues=[status.name], lease=lease)
        return Taken(claims[0] if claims else None, self.manual_queue(name).waiting)

    def extend(self, id: str, fence: int, *, lease: int = DEFAULT_PERSON_LEASE) -> Document:
        """Hold a taken document for `lease` from now."""
        claim = self._claim(id, fence)
        if claim is None or self._queue.heartbeat([claim], lease=lease) != (LeaseStatus.HELD,):
            raise _stale_fence_error(id, fence)
        return self._queue.document(id)

    def finish(self, id: str, fence: int, result: Any, *, to: str | None = None) -> Document:
        """Record the result of a taken document; it goes to the queue `to`, or to the next of its steps, or is done.

        The result must be what the form of its queue asks for. A person makes no queue by a mistyped name.
        """
        claim = self._claim(id, fence)
        if claim is None:
            return self._finished_before(id, fence, result, to)
        value = self._answer(claim.document.queue, result)
        if to is None:
            return self._record(self._queue.done(claim, value))
        return self._record(self._queue.next_step(claim, self._queue.queue_status(to).name, value))

    def release(self, id: str, fence: int) -> Document:
        """Hand a taken document back: it keeps its place, and no attempt is counted."""
        claim = self._claim(id, fence)
        if claim is None:
            return self._repeated(id, fence, (OutcomeKind.RELEASED,))
        return self._record(self._queue.released(claim))

    def reject(self, id: str, fence: int, reason: str) -> Document:
        """Fail a taken document for good, with a reason."""
        if not reason.strip():
            raise InvalidInputError("a document is rejected with a reason: say in some words why")
        claim = self._claim(id, fence)
        if claim is None:
            return self._repeated(id, fence, (OutcomeKind.FAILED,))
        return self._record(self._queue.failed(claim, reason.strip(), final=True))

    def form(self, name: str) -> tuple[Field, ...]:
        """Return the fields of a queue's form; none if any JSON value will do."""
        text = self._queue.queue_status(name).settings.form
        return () if text is None else parse_form(text)

    def manual_queue(self, name: str) -> QueueStatus:
        """Return a queue that people serve; IllegalTransitionError if it is another."""
        status = self._queue.queue_status(name)
        if not status.settings.manual:
            raise IllegalTransitionError(
                f"people do not serve the queue {status.name}: workers do; an operator changes that with"
                f" `inturn queues set {status.name} --manual`"
            )
        return status

    def _claim(self, id: str, fence: int) -> Claim | None:
        """Return the claim that the person holds under this fence; None if it has ended."""
        document = self._queue.document(id)
        if document.state is not DocumentState.RUNNING or document.fence != fence:
            return None
        if not is_person(document.worker):
            raise IllegalTransitionError(
                f"document {document.id} is being processed by the worker {document.worker}: it was not taken by hand"
            )
        if document.worker != self._worker:
            raise IllegalTransitionError(
                f"document {document.id} was taken by {str(document.worker).removeprefix(PERSON_PREFIX)}, not by"
                f" {self._worker.removeprefix(PERSON_PREFIX)}; nothing was recorded"
            )
        if document.lease_until is not None and document.lease_until <= self._queue.now():
            raise _stale_fence_error(document.id, fence)  # a sweep has yet to hand it back
        return Claim(document, fence)

    def _answer(self, queue: str, result: Any) -> Any:
        fields = self.form(queue)
        return clean_answer(fields, result) if fields else result

    def _finished_before(self, id: str, fence: int, result: Any, to: str | None) -> Document:
        """Return a document that was finished under this fence before, with the same result and for the same queue."""
        document = self._repeated(id, fence, FINISHED)
        results = self._queue.results(document.id)
        reached = None if document.state is DocumentState.DONE else document.queue
        if not results or reached != (to or _planned_next(document, results)):
            raise _different_finish_error(document, fence)
        recorded = results[-1]
        try:
            text = result_text(self._answer(recorded.queue, result))
        except InvalidInputError:  # the recorded one fitted the form
            text = None
        if recorded.result not in (text, result_text(result)):  # the form may have changed since
            raise _different_finish_error(document, fence)
        return document

    def _record(self, outcome: Outcome) -> Document:
        if self._queue.ack([outcome])[0] is AckStatus.STALE:
            raise _stale_fence_error(outcome.id, outcome.fence)
        return self._queue.document(outcome.id)

    def _repeated(self, id: str, fence: int, kinds: Sequence[OutcomeKind]) -> Document:
        """Return the document if one of these outcomes was recorded under this fence before.

        The claim has ended, so that the store can record none of them now.
        """
        document = self._queue.document(id)
        if AckStatus.REPEATED not in self._queue.ack([Outcome(document.id, fence, kind) for kind in kinds]):
            raise _stale_fence_error(document.id, fence)
        return document


def person_worker(person: str) -> str:
    """Return the name that a person's claims have in place of a worker's."""
    return f"{PERSON_PREFIX}{person}"[:MAX_NAME_LENGTH]


def _planned_next(document: Document, results: Sequence[StepResult]) -> str | None:
    """Return where a document was to go after the last of these steps; None if it was done then."""
    ahead = document.spec.steps[1:]
    for result in results[1:]:
        ahead = steps_after(result.queue, ahead)
    return ahead[0] if ahead else None


def _different_finish_error(document: Document, fence: int) -> IllegalTransitionError:
    return IllegalTransitionError(
        f"document {document.id} was finished under fence {fence} before, with another result or for another queue;"
        f" that one stays, and nothing was recorded now"
    )


def _stale_fence_error(id_: str, fence: int) -> StaleFenceError:
    return StaleFenceError(
        f"fence {fence} no longer holds document {id_}: its time ran out, or it was handed back, finished or cancelled;"
        f" nothing was recorded, take it again"
    )

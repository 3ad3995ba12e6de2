"""What is done by hand to many documents at once: `/v1/documents/cancel`, `/retry` and `/expedite`."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fastapi import APIRouter

from inturn.errors import IllegalMoveError, InvalidInputError
from inturn.http import schemas
from inturn.http.auth import OperatorsEyes
from inturn.http.errors import Answers
from inturn.http.scoped import ByHand, Scoped
from inturn.model import CANCELLABLE, RETRYABLE, DocumentState
from inturn.store import DocumentFilter, Operator

router: Final = APIRouter(prefix="/v1", tags=["documents"])


class Act(NamedTuple):
    """What is to be done, and to documents of which states."""

    to_all: Callable[[DocumentFilter, Operator], int]
    to_these: Callable[[Sequence[str], Operator], Sequence[object]]
    allowed: frozenset[DocumentState]
    usual: frozenset[DocumentState]
    """Unless states are given, or the documents themselves."""


@router.post("/documents/cancel", operation_id="cancelDocuments", responses=Answers.of(413, 422))
def cancel_all(given: schemas.Filter, by_hand: ByHand) -> schemas.Bulk:
    """Cancel all that match and have not ended; with `dry_run`, only count them."""
    queue = by_hand.service.queue
    return _bulk(given, by_hand, Act(queue.cancel_all, queue.store.cancel, CANCELLABLE, CANCELLABLE))


@router.post("/documents/retry", operation_id="retryDocuments", responses=Answers.of(413, 422))
def retry_all(given: schemas.Filter, by_hand: ByHand) -> schemas.Bulk:
    """Try all again that match and ended without a result; those cancelled only if `state` or `ids` say so."""
    queue, usual = by_hand.service.queue, RETRYABLE - {DocumentState.CANCELLED}
    return _bulk(given, by_hand, Act(queue.retry_all, queue.store.retry, RETRYABLE, usual))


@router.post("/documents/expedite", operation_id="expediteDocuments", responses=Answers.of(413, 422))
def expedite_these(given: schemas.Chosen, by_hand: ByHand, _: OperatorsEyes) -> schemas.Bulk:
    """Operators: move these before all levels, the oldest first; those that do not wait are passed over."""
    done = 0
    for each in reversed(by_hand.these(given.ids)):
        try:
            by_hand.expedite(each.id)
        except IllegalMoveError:
            continue
        done += 1
    return schemas.Bulk(documents=done, done=True)


def _bulk(given: schemas.Filter, by_hand: Scoped, act: Act) -> schemas.Bulk:
    conditions = given.model_dump(exclude={"dry_run", "ids"}, exclude_none=True)
    if given.ids is not None:
        if conditions:
            raise InvalidInputError("give ids alone, or conditions without ids")
        return _these(given.ids, by_hand, act, dry_run=given.dry_run)
    if not conditions:
        raise InvalidInputError("say which documents: give ids, or at least one of state, customer, level, batch, text")
    states = act.usual if given.state is None else frozenset(DocumentState(each) for each in given.state)
    if not states <= act.allowed:
        raise InvalidInputError(f"this is for documents that are {', '.join(sorted(act.allowed))}")
    where = by_hand.narrowed(DocumentFilter(states, given.customer, given.level, given.batch, given.text))
    if given.dry_run:
        return schemas.Bulk(documents=sum(by_hand.counts(where).states.values()), done=False)
    return schemas.Bulk(documents=act.to_all(where, by_hand.operator), done=True)


def _these(ids: Sequence[str], by_hand: Scoped, act: Act, *, dry_run: bool) -> schemas.Bulk:
    """Oldest first: a retry is a check, and the oldest should get the best level."""
    found = [each.id for each in reversed(by_hand.these(ids)) if each.state in act.allowed]
    n = len(found) if dry_run or not found else len(act.to_these(found, by_hand.operator))
    return schemas.Bulk(documents=n, done=not dry_run)

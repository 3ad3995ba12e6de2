"""How documents come in: checks, documents, idempotency keys. One write transaction a call."""

import json
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Final

import apsw

from inturn.errors import InvalidInputError, KeyConflictError
from inturn.model import NO_METADATA, Check, DocumentState, NewDocument, Receipt
from inturn.policy import Counter
from inturn.policy.priority import CheckedMany
from inturn.policy.turns import Head
from inturn.store import KEY_KEPT, EventKind, Submission, check_fingerprint
from inturn.stores.sqlite.changes import LaterChanges
from inturn.stores.sqlite.moves import Moves
from inturn.stores.sqlite.tables import Tables, packed_all

WAITING: Final = str(DocumentState.WAITING)
DELAYED: Final = str(DocumentState.DELAYED)
_columns: Final = attrgetter(
    "cost", "max_attempts", "start_by", "name", "uri", "blob", "sha256", "size", "media_type", "batch", "pages", "delay"
)
_delay: Final = attrgetter("delay")
_receipt: Final = partial(tuple.__new__, Receipt)
"""A receipt from its fields, without a look at them: one is made for every document."""


class Intake:
    """Checks and submits, inside the writer's transaction."""

    def __init__(self, tables: Tables, later: LaterChanges) -> None:
        self._tables = tables
        self._later = later

    def check(self, customer: str, n: int, key: str | None, now: int) -> tuple[Check, ...]:
        """Look at a customer for n documents that wait elsewhere."""
        fingerprint = check_fingerprint(n)
        owner, counter = self.customer(customer)
        if key is not None and (first := self._repeated(owner, customer, key, fingerprint, now)) is not None:
            return tuple(Check(level, count) for _, level, count in first)
        answer = tuple(Check(level, count) for level, count in self.lower(owner, counter, n, now).each())
        if key is not None:
            self._keep_key(owner, key, fingerprint, now, [("", *each) for each in answer])
        return answer

    def submit(self, submission: Submission, now: int) -> tuple[Receipt, ...]:
        """Take in one call's documents."""
        customer, ids, documents, key, fingerprint = submission
        owner, counter = self.customer(customer)
        if key is not None and (first := self._repeated(owner, customer, key, fingerprint, now)) is not None:
            return tuple(Receipt(*each) for each in first)
        last, number = self._tables.one("give_seqs", n=len(ids)) or (0, 0)
        checked = self.lower(owner, counter, len(ids), now, number)
        receipts = tuple([_receipt((id_, *each)) for id_, each in zip(ids, checked.each(), strict=True)])
        kept = packed_all(ids)
        documents = self._tables.policy(number).policy.costs.applied(documents)
        self._insert(owner, last - len(ids) + 1, kept, receipts, documents, now)
        moves = Moves(self._tables, self._later, now)
        moves.note(EventKind.SUBMITTED, customer, kept)
        moves.write()
        if key is not None:
            self._keep_key(owner, key, fingerprint, now, receipts)
        return receipts

    def _insert(
        self,
        owner: int,
        first: int,
        ids: bytes,
        receipts: Sequence[Receipt],
        documents: Sequence[NewDocument],
        now: int,
    ) -> None:
        rows = [
            (first + at, ids[16 * at : 16 * at + 16], owner, level, count, now, _metadata(given), *_columns(given))
            for at, ((_, level, count), given) in enumerate(zip(receipts, documents, strict=True))
        ]
        try:
            self._tables.many("add_document", rows)
        except apsw.ConstraintError as wrong:
            raise InvalidInputError("a document with one of these ids exists already; ids are given once") from wrong
        waiting = rows if not any(map(_delay, documents)) else [row for row in rows if not row[-1]]
        for level, run in groupby(waiting, key=itemgetter(3)):
            several = list(run)
            self._later.joined(owner, level, len(several), Head(several[0][0], now, several[0][7]))

    def lower(self, owner: int, counter: Counter | None, n: int, now: int, version: int | None = None) -> CheckedMany:
        """Lower a customer's counter n times."""
        if version is None:
            version = (self._tables.one("policy_number") or (0,))[0]
        checked = self._tables.policy(version).policy.priority.check_many(counter, now, n)
        count, updated_at = checked.counter
        self._tables.one("set_counter", id=owner, count=count, updated_at=updated_at)
        return checked

    def customer(self, name: str) -> tuple[int, Counter | None]:
        """A customer's id and counter; known from now on."""
        found = self._tables.one("customer", name=name)
        if found is None:
            return (self._tables.one("add_customer", name=name) or (0,))[0], None
        owner, count, updated_at, _ = found
        return owner, None if count is None else Counter(count, updated_at)

    def _repeated(self, owner: int, customer: str, key: str, fingerprint: str, now: int) -> list[Any] | None:
        found = self._tables.one("key", customer=owner, key=key)
        if found is None or now - found[1] > KEY_KEPT:
            return None
        if found[0] != fingerprint:
            raise KeyConflictError(
                f"key {key!r} of {customer!r} was used before for something else; use a new key for new content",
            )
        answer: list[Any] = json.loads(found[2])
        return answer

    def _keep_key(self, owner: int, key: str, fingerprint: str, now: int, answer: Sequence[Sequence[Any]]) -> None:
        text = json.dumps(answer)
        self._tables.one("keep_key", customer=owner, key=key, fingerprint=fingerprint, at=now, answer=text)


def _metadata(given: NewDocument) -> str | None:
    return None if given.metadata is NO_METADATA else json.dumps(dict(given.metadata))

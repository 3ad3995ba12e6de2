"""How documents come in: checks, documents, idempotency keys. One transaction a call, ours or the user's."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from psycopg import errors

from inturn.errors import InvalidInputError, KeyConflictError
from inturn.model import Check, NewDocument, Receipt
from inturn.policy import Counter, Policy
from inturn.policy.priority import CheckedMany, PriorityPolicy
from inturn.store import KEY_KEPT, Submission, check_fingerprint
from inturn.stores._given import columns_of, receipts_of
from inturn.stores.postgres.known import Known
from inturn.stores.postgres.rows import lower_of
from inturn.stores.postgres.tables import EDGE, Row, Tables, Uuids
from inturn.stores.postgres.wire import Asked, WiredTables, asked

_ALIKE: Final = ("cost", "max_attempts", "delay")


class Intake:
    """Checks and submits. The customer's row is locked first: what happens to one customer happens in some order."""

    def __init__(self, tables: Tables, known: Known, now: int | None) -> None:
        self._tables = tables
        self._known = known
        self._given_now = now

    def check(self, customer: str, n: int, key: str | None) -> tuple[Check, ...]:
        """Look at a customer for n documents that wait elsewhere."""
        fingerprint = check_fingerprint(n)
        owner, counter, number, now = self._entered(customer)
        if key is not None and (first := self._repeated(owner, customer, key, fingerprint, now)) is not None:
            return tuple(Check(level, count) for _, level, count in first)
        checked = self.lowered(counter, n, now, number)
        self.keep(owner, checked)
        answer = tuple(Check(level, count) for level, count in checked.each())
        if key is not None:
            self._keep_key(owner, key, fingerprint, now, [("", *each) for each in answer])
        return answer

    def submit(self, submission: Submission) -> tuple[Receipt, ...]:
        """Take in one call's documents."""
        customer, key, fingerprint = submission.customer, submission.key, submission.fingerprint
        owner, _, number, now = self._entered(customer)
        if key is not None and (first := self._repeated(owner, customer, key, fingerprint, now)) is not None:
            return tuple(Receipt(*each) for each in first)
        version = self._known.policy(self._tables, number)
        query, values = _statement(submission, version.policy, now)
        with _ids_given_once():
            found = self._tables.one(query, **values, policy=None)
        receipts = _receipts(submission.ids, version.policy.priority, *(found or ()))
        if key is not None:
            self._keep_key(owner, key, fingerprint, now, receipts)
        return receipts

    def submit_at_once(
        self, submission: Submission, tables: WiredTables, behind: Asked | None
    ) -> tuple[Receipt, ...] | None:
        """The same in one trip and one commit, with a statement `behind` it; None if the policy is another by now."""
        version, customer = self._known.newest, submission.customer
        if version is None:
            return None
        query, values = _statement(submission, version.policy, self._given_now)
        statements = [asked(query, {**values, "policy": version.number})]
        if not (is_known := self._known.is_customer(customer)):
            statements.insert(0, asked("add_customer", {"name": customer, "lower": lower_of(customer)}))
        with _ids_given_once():
            if is_known and behind is None:
                found, _ = tables.connection.ask(*statements)
            else:
                *_, (found, _) = tables.connection.ask_all(statements, behind)
        if not found:
            return None
        self._known.see_customer(customer)
        return _receipts(submission.ids, version.policy.priority, *found[0])

    def submit_together(
        self, submissions: Sequence[Submission], tables: WiredTables
    ) -> list[tuple[Receipt, ...] | None]:
        """Several calls' documents by one commit; None for those that were not taken in.

        Nobody is waited for, so that the order of the locks is nobody's trouble: if a customer is locked, or not there,
        none is taken in. Otherwise None means that the policy is another by now.
        """
        names, version = {each.customer for each in submissions}, self._known.newest
        if version is None or len(tables.all("lock_free_customers", names=list(names))) < len(names):
            return [None] * len(submissions)
        several = []
        for each in submissions:
            query, values = _statement(each, version.policy, self._given_now)
            several.append(asked(query, {**values, "policy": version.number}))
        with _ids_given_once():
            answers = tables.ask_last(several)
        return [
            _receipts(each.ids, version.policy.priority, *found[0]) if found else None
            for each, (found, _) in zip(submissions, answers, strict=True)
        ]

    def _entered(self, name: str) -> tuple[int, Counter | None, int, int]:
        """Customer and instant; the transaction may have begun with both."""
        found, instant = self._tables.begun or (None, None)
        if found is None or instant is None:
            return *self.customer(name), *self.instant()
        number, now = instant
        return *_counted(found), number, now if self._given_now is None else self._given_now

    def customer(self, name: str) -> tuple[int, Counter | None]:
        """A customer's id and counter; known from now on, and locked until the end of the transaction."""
        while (found := self._tables.one("lock_customer", name=name)) is None:
            self._tables.run("add_customer", name=name, lower=lower_of(name))
        return _counted(found)

    def instant(self) -> tuple[int, int]:
        """The policy's version, and the time: the server's own, after the lock, unless one was given."""
        number, now = self._tables.one("intake") or (0, 0)
        return number, now if self._given_now is None else self._given_now

    def lowered(self, counter: Counter | None, n: int, now: int, version: int) -> CheckedMany:
        """What n checks of a customer give."""
        return self._known.policy(self._tables, version).policy.priority.check_many(counter, now, n)

    def keep(self, owner: int, checked: CheckedMany) -> None:
        """Write the counter down."""
        count, updated_at = checked.counter
        self._tables.run("set_counter", id=owner, count=count, updated_at=updated_at)

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
        self._tables.run("keep_key", customer=owner, key=key, fingerprint=fingerprint, at=now, answer=text)


def _counted(row: Row) -> tuple[int, Counter | None]:
    owner, count, updated_at, _ = row
    return owner, None if count is None else Counter(count, updated_at)


@contextmanager
def _ids_given_once() -> Iterator[None]:
    try:
        yield
    except errors.UniqueViolation as wrong:
        raise InvalidInputError("a document with one of these ids exists already; ids are given once") from wrong


def _receipts(ids: Sequence[str], priority: PriorityPolicy, first: int, now: int) -> tuple[Receipt, ...]:
    """Of documents whose first check gave this count."""
    checked = priority.check_many(Counter(first + 1, now), now, len(ids))
    return receipts_of(ids, checked)


def _statement(submission: Submission, policy: Policy, now: int | None) -> tuple[str, dict[str, Any]]:
    """What checks and keeps the documents of a customer that there is, and its values."""
    documents = policy.costs.applied(submission.documents)
    query, given = _one(submission.ids[0], documents[0]) if _is_plain(documents) else _many(submission.ids, documents)
    interval, thresholds = policy.priority.reset_interval, policy.priority.thresholds
    given.update(customer=submission.customer, now=now, interval=interval, thresholds=[*reversed(thresholds)])
    return query, given


def _is_plain(documents: Sequence[NewDocument]) -> bool:
    """One document that waits from now on."""
    return len(documents) == 1 and not documents[0].delay and documents[0].start_by is None


def _one(id_: str, given: NewDocument) -> tuple[str, dict[str, Any]]:
    """The statement for one plain document, and its values."""
    values = given._asdict()
    del values["delay"], values["start_by"]
    values.update(id=id_, cost=float(given.cost), lower_name=lower_of(given.name))
    return "take_in_one", values


def _many(ids: Sequence[str], documents: Sequence[NewDocument]) -> tuple[str, dict[str, Any]]:
    """The statement for any, with one list for each column; what none has, or all have alike, is not sent for each."""
    given: dict[str, Any] = {**columns_of(documents)}
    metadata = given.pop("metadata")
    texts = EDGE.join([text or "" for text in metadata]) if any(metadata) else None
    given["cost"] = list(map(float, given["cost"]))
    given["lower_name"] = None if _are_lower(given["name"]) else list(map(lower_of, given["name"]))
    soonest = {
        "soonest_delay": min(filter(None, given["delay"]), default=None),
        "soonest_start_by": min((each for each in given["start_by"] if each is not None), default=None),
    }
    alike = {f"same_{name}": given[name][0] for name in _ALIKE}
    for name, values in given.items():
        if values is not None and values.count(alike.get(f"same_{name}")) == len(values):
            given[name] = None
    return "take_in", {"id": Uuids(ids), "n": len(ids), "metadata": texts, **given, **alike, **soonest}


def _are_lower(names: Sequence[str]) -> bool:
    """Whether a search finds them as they are: seen at once for all."""
    joined = "\n".join(names)
    return joined.lower() == joined

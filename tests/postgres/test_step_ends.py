"""Ends of steps are recorded by one statement where they can be; it does what a transaction of several would do."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inturn.clock import ManualClock
from inturn.model import Claim, NewDocument
from inturn.policy import Charge, Policy, TurnPolicy
from inturn.queue import Queue
from inturn.store_types import AckStatus, Operator, Outcome, OutcomeKind, Work
from inturn.stores.postgres import PostgresStore
from inturn.stores.postgres.connection import SingleWrite
from inturn.testing.contract.state_machine import FixedIds
from inturn.values import SECOND, seconds
from services import drop_schema, needs_postgres, new_schema

pytestmark = needs_postgres
ANNA = Operator("anna", "because the test says so")
POLICIES = tuple(
    Policy(turns=TurnPolicy(charge=charge), check_each_step=checks)
    for charge in (Charge.TIME, Charge.COST)
    for checks in (False, True)
)
ROWS = {
    "document": "seq",
    "attempt": "document, fence",
    "requeued": "seq",
    "running": "seq",
    "ended": "seq",
    "lane_log": "number",
    "event_outbox": "id",
    "customer": "id",
    "named_queue": "number",
}
"""The tables that ends of steps write, each with the order in which its rows are compared."""
OUTCOMES = st.tuples(
    st.sampled_from([None, "ocr", "ocr", "export", "default", "made by a step"]),
    st.sampled_from([(), ("export",), ("ocr", "export")]),
    st.sampled_from([None, '{"pages": 3}']),
    st.none() | st.builds(Work, st.integers(0, 3 * SECOND), st.integers(0, 3 * SECOND)),
    st.sampled_from([0, 0, 0, 0, 1]),
)
"""The queue of the next step, those after it, the result, the work, and what is added to the fence."""


class Stepwise(PostgresStore):
    """A store that records every outcome by a transaction of several statements."""

    def _finish_statement(self, outcomes: Sequence[Outcome], now: int | None) -> SingleWrite | None:
        del outcomes, now
        return None


class Side:
    """A store and its rows."""

    def __init__(self, store: PostgresStore, clock: ManualClock) -> None:
        self.store, self.queue = store, Queue(store, clock=clock, ids=FixedIds())

    def prepare(self, policy: Policy, capped: bool) -> list[Claim]:  # noqa: FBT001 - drawn by Hypothesis
        """Claim documents of three customers, two groups and two queues, a part and an expedited one among them."""
        self.queue.set_policy(policy, ANNA)
        self.queue.change_customer("acme", ANNA, cap=100 if capped else None)
        for customer in ("acme", "bolt"):
            self.queue.submit(
                customer, [NewDocument("a"), NewDocument("b", group="g"), NewDocument("c", queue="export")]
            )
        self.queue.submit("cord", [NewDocument("whole")])
        (last,) = self.queue.submit("cord", [NewDocument("first", metadata={"first": True})])
        self.queue.expedite(last.id, ANNA)
        claims = list(self.queue.claim("worker", 50, queues=["default", "export"]))
        whole = next(claim for claim in claims if claim.document.spec.name == "whole")
        claims.remove(whole)
        self.queue.ack([self.queue.split(whole, [NewDocument("part", queue="ocr")], "export")])
        return claims + list(self.queue.claim("worker", 50, queues=["ocr"]))

    def end(self, claims: Sequence[Claim], drawn: Sequence[tuple[Any, ...]]) -> tuple[AckStatus, ...]:
        outcomes = []
        for claim, (queue, ahead, result, work, off) in zip(claims, drawn, strict=False):
            kind = OutcomeKind.DONE if queue is None else OutcomeKind.NEXT
            outcome = Outcome(claim.document.id, claim.fence + 1_000 * off, kind, result, work=work)
            outcomes.append(outcome if queue is None else outcome._replace(queue=queue, ahead=ahead))
        return self.queue.ack(outcomes)

    def rows(self) -> dict[str, list[str]]:
        schema, rows = self.store.address.schema, {}
        with psycopg.connect(self.store.address.conninfo, options=f"-c search_path={schema}") as connection:
            for table, order in ROWS.items():
                own = order if table in {"lane_log", "event_outbox"} else ""
                text = f"SELECT (to_jsonb(item) - 'xid' - '{own}')::text FROM {table} AS item ORDER BY {order}"  # noqa: S608
                rows[table] = [row for (row,) in connection.execute(text.encode()).fetchall()]
        return rows


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock(seconds(1_000))


@pytest.fixture(scope="module")
def sides(clock: ManualClock) -> Iterator[tuple[Side, Side]]:
    with ExitStack() as stack:
        made = []
        for kind in (PostgresStore, Stepwise):
            url = new_schema()
            stack.callback(drop_schema, url)
            made.append(Side(stack.enter_context(closing(kind(url, clock))), clock))
        yield made[0], made[1]


@settings(max_examples=40, deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    capped=st.booleans(),
    drawn=st.lists(OUTCOMES, min_size=1, max_size=9),
    later=st.integers(0, 5),
)
def test_one_statement_writes_the_rows_of_a_transaction(
    sides: tuple[Side, Side],
    clock: ManualClock,
    policy: Policy,
    capped: bool,  # noqa: FBT001 - drawn by Hypothesis
    drawn: list[tuple[Any, ...]],
    later: int,
) -> None:
    claims = [side.prepare(policy, capped) for side in sides]
    clock.advance(seconds(later))
    first, second = (side.end(own, drawn) for side, own in zip(sides, claims, strict=True))
    assert first == second
    one, several = (side.rows() for side in sides)
    assert one == several
    for side in sides:
        side.queue.purge("acme", ANNA)
        side.queue.purge("bolt", ANNA)
        side.queue.purge("cord", ANNA)


def test_ends_of_steps_take_one_trip(trips: list[str], store: PostgresStore) -> None:
    queue = Queue(store)
    queue.submit("acme", [NewDocument("a", steps=["ocr", "export"]), NewDocument("b", queue="export")])
    claimed = queue.claim("worker", 2, queues=["ocr", "export"])
    trips.clear()
    assert set(queue.ack([queue.done(claim) for claim in claimed])) == {AckStatus.RECORDED}
    assert trips[:1] == ["query_pipeline"]
    assert len([trip for trip in trips if trip == "query_pipeline"]) == 1


def test_a_policy_that_another_process_has_set_is_noticed(store: PostgresStore, url: str) -> None:
    queue = Queue(store)
    queue.submit("acme", [NewDocument("a"), NewDocument("b")])
    first, second = queue.claim("worker", 2)
    queue.ack([queue.next_step(first, "ocr")])
    before = queue.document(second.document.id).count
    with closing(PostgresStore(url)) as other:
        other.set_policy(Policy(check_each_step=True), ANNA)
    queue.ack([queue.next_step(second, "ocr")])
    assert queue.document(second.document.id).count == before - 1

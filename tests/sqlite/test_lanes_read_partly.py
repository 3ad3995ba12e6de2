"""A claim reads only the lanes it may need. With many customers it must still take what a store that sees them all
takes: the state machine of the contract has too few customers to show a difference.
"""

import random
from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.store_types import ClaimRequest, Operator, Outcome, OutcomeKind, Submission
from inturn.stores.memory import MemoryStore
from inturn.stores.sql import lane_loader
from inturn.stores.sqlite import SqliteStore
from inturn.values import seconds

CUSTOMERS = [f"customer {n}" for n in range(40)]
ANNA = Operator("anna", "a test")
HOUR = seconds(3_600)


def made_id(n: int) -> str:
    return f"00000000-0000-7000-8000-{n:012x}"


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("more_lanes", [0, 1, 100])
def test_many_customers_take_turns_as_in_memory(
    tmp_path: Path, seed: int, order: Order, more_lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_loader, "MORE_LANES", more_lanes)
    chance, clock = random.Random(seed), ManualClock(seconds(1_700_000_000))
    stores = (MemoryStore(clock), SqliteStore(tmp_path / "queue.db", clock))
    policy = Policy(PriorityPolicy(HOUR, (-1, -2, -4)), TurnPolicy(order, seconds(2), 3))
    for store in stores:
        store.set_policy(policy, ANNA)
    given = 0
    for _ in range(600):
        clock.advance(seconds(0.1))
        what, n = chance.random(), chance.choice([1, 1, 1, 3])
        if what < 0.45:
            ids = [made_id(given + k) for k in range(n)]
            given += n
            documents = [NewDocument("a document", cost=chance.choice([0.1, 1.0, 30.0]))] * n
            submission = Submission(chance.choice(CUSTOMERS), ids, documents)
            first, second = (store.submit(submission) for store in stores)
        elif what < 0.5:
            changes = {"weight": chance.choice([0.2, 1.0, 5.0]), "paused": chance.random() < 0.2}
            customer = chance.choice(CUSTOMERS)
            first, second = (store.change_customer(customer, changes, ANNA) for store in stores)
        else:
            request = ClaimRequest("worker", chance.choice([1, 1, 4]), HOUR)
            first, second = (store.claim(request) for store in stores)
            outcomes = [Outcome(claim.document.id, claim.fence, OutcomeKind.DONE, result="0") for claim in first]
            for store in stores:
                store.ack_and_claim(outcomes, None)
        assert first == second
    assert stores[0].scheduler_snapshot() == stores[1].scheduler_snapshot()
    for store in stores:
        store.close()


def test_oldest_heads_are_found_whatever_their_turns(tmp_path: Path) -> None:
    """They came at times in another order than that of their turns, and a claim reads few lanes at once."""
    chance, clock = random.Random(7), ManualClock(seconds(1_700_000_000))
    stores = (MemoryStore(clock), SqliteStore(tmp_path / "queue.db", clock))
    times = [chance.randrange(1_000_000) for _ in range(300)]
    for store in stores:
        store.set_policy(Policy(PriorityPolicy(HOUR, (-5,)), TurnPolicy(Order.FAIR, seconds(2), 2)), ANNA)
        for n, at in enumerate(times):
            documents = [NewDocument("a document")] * 2
            store.submit(Submission(f"customer {n}", [made_id(2 * n), made_id(2 * n + 1)], documents), now=at)
    stores[1].sweep()
    request = ClaimRequest("worker", 1, HOUR)
    first, second = ([store.claim(request)[0].document.seq for _ in range(500)] for store in stores)
    for store in stores:
        store.close()
    assert first == second

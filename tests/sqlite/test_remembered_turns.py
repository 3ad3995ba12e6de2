"""A process remembers where its last claim left the turns; another process or a failed claim must not mislead it."""

from itertools import cycle
from pathlib import Path

import pytest

from inturn import DocumentState, NewDocument, Queue
from inturn.clock import ManualClock
from inturn.model import seconds
from inturn.store import DocumentFilter, Operator, Store
from inturn.stores.memory import MemoryStore
from inturn.stores.sqlite import SqliteStore
from inturn.stores.sqlite.transitions import Transitions


def fill(store: Store) -> None:
    for number in range(6):
        Queue(store).submit(f"customer {number}", [NewDocument("x")] * (4 + 5 * number), now=1)


def claim(store: Store, limit: int) -> list[int]:
    return [claimed.document.seq for claimed in Queue(store).claim("worker", limit, now=2)]


def expected(limits: list[int]) -> list[list[int]]:
    memory = MemoryStore(ManualClock())
    fill(memory)
    return [claim(memory, limit) for limit in limits]


def test_two_that_claim_in_turn_keep_one_order(tmp_path: Path) -> None:
    limits = [1, 7, 2, 2, 1, 13, 1, 1, 5, 20]
    stores = [SqliteStore(tmp_path / "queue.db", ManualClock()) for _ in range(2)]
    fill(stores[0])
    taken = [claim(store, limit) for store, limit in zip(cycle(stores), limits, strict=False)]
    for store in stores:
        store.close()
    assert taken == expected(limits)


def test_a_claim_that_came_to_nothing_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "queue.db", ManualClock())
    fill(store)
    taken = [claim(store, 3)]
    with monkeypatch.context() as broken:

        def fails(_: Transitions) -> None:
            raise RuntimeError("after the lanes were taken")

        broken.setattr(Transitions, "flush", fails)
        with pytest.raises(RuntimeError, match="after the lanes"):
            claim(store, 25)
    taken += [claim(store, limit) for limit in (1, 8, 30)]
    assert store.recount(repair=False) == ()
    store.close()
    assert taken == expected([3, 1, 8, 30])


def test_what_leaves_or_comes_back_is_seen_by_one_that_claims_again_and_again(tmp_path: Path) -> None:
    stores: list[Store] = [MemoryStore(ManualClock()), SqliteStore(tmp_path / "queue.db", ManualClock())]
    seen: list[list[int]] = [[], []]
    for store, taken in zip(stores, seen, strict=True):
        queue = Queue(store)
        late = NewDocument("late", delay=seconds(9))
        queue.submit("acme", [NewDocument("x"), NewDocument("x"), late] * 20, now=1)
        for step in range(30):
            now = 2 if step < 15 else seconds(10)
            (claimed,) = queue.claim("worker", now=now)
            taken.append(claimed.document.seq)
            waiting = queue.documents(DocumentFilter(states=frozenset({DocumentState.WAITING}))).items
            if step % 5 == 2:
                queue.cancel(waiting[-2].id, Operator("test", "the one after the head"), now=now)
            if step % 5 == 4:
                queue.release(claimed, now=now)
        store.close()
    assert seen[0] == seen[1]


def test_more_customers_than_one_look_takes_in(tmp_path: Path) -> None:
    stores: list[Store] = [MemoryStore(ManualClock()), SqliteStore(tmp_path / "queue.db", ManualClock())]
    seen = []
    for store in stores:
        for number in range(150):
            Queue(store).submit(f"customer {number}", [NewDocument("x")] * (1 + number % 4), now=1)
        seen.append([claim(store, limit) for limit in (1, 1, 40, 3, 90, 1, 60, 150)])
        store.close()
    assert seen[0] == seen[1]

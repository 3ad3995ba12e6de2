"""Documents go through random steps and parts while the processes that work on them are killed."""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store import Store
from inturn.store_types import STEP_ENDS, DocumentFilter, Event, EventKind
from worker_harness import SECOND, ScriptProcess, eventually

Start = Callable[..., ScriptProcess]
KILLS = 75 if os.environ.get("INTURN_SOAK") == "1" else 20
QUEUES = ("a", "b", "c")
MAX_ATTEMPTS = 100
"""A lost lease is an attempt; here every step may lose many."""


def random_plan(chance: random.Random) -> list[str]:
    """Up to three steps after the first, each in any queue; about one in three splits the document."""
    steps = []
    for _ in range(chance.randrange(4)):
        queue = chance.choice(QUEUES)
        steps.append(f"split {queue} {chance.randrange(1, 5)}" if chance.random() < 1 / 3 else f"next {queue}")
    return steps


def check_steps_survive_kills(store: Store, url: str, folder: Path, start: Start) -> None:
    """Each document ends once, each step has one result, no part is there twice, and what was split goes on once."""
    chance, queue, plans = random.Random(7), Queue(store), {}
    options = json.dumps({"lease": SECOND, "slots": 2, "queues": dict.fromkeys(QUEUES)})

    def submit() -> None:
        plan = random_plan(chance)
        document = NewDocument("a document", queue="a", metadata={"plan": plan}, max_attempts=MAX_ATTEMPTS)
        plans[queue.submit(chance.choice(["acme", "böhm", "cruz"]), [document])[0].id] = plan

    running = [start("walk", url, folder / "blobs", options) for _ in range(3)]
    for _ in range(KILLS):
        for _ in range(5):
            submit()
        ready = eventually(lambda: [at for at, process in enumerate(running) if process.has_message()])
        time.sleep(chance.uniform(0.005, 0.05))  # a random moment; nothing waits for it
        at = chance.choice(ready)
        running[at].kill()
        running[at] = start("walk", url, folder / "blobs", options)
    eventually(lambda: set(store.counts(DocumentFilter()).states) == {"done"})
    for process in running:
        process.kill()
    check_ends(store, plans)
    assert store.recount(repair=False) == ()


def check_ends(store: Store, plans: dict[str, list[str]]) -> None:
    """What the documents, their results and the events of the store say of it."""
    counts: dict[EventKind, Counter[str]] = {kind: Counter() for kind in EventKind}
    for event in all_events(store):
        counts[event.kind].update(event.documents)
    parts = {id_: store.parts(id_, limit=100) for id_ in plans}
    for id_, plan in plans.items():
        path = ["a", *(step.split()[1] for step in plan)]
        assert [(result.step, result.queue) for result in store.results(id_)] == list(enumerate(path))
        splits = [int(step.split()[2]) for step in plan if step.startswith("split")]
        steps_ended = [attempt.step for attempt in store.attempts(id_) if attempt.ended in STEP_ENDS]
        assert steps_ended == list(range(len(plan)))
        assert counts[EventKind.STEP_DONE][id_] == len(plan) - len(splits)
        assert counts[EventKind.SPLIT][id_] == counts[EventKind.PARTS_ENDED][id_] == len(splits)
        last = json.loads(store.result(id_) or "")["parts"]
        assert last == list(range(splits[-1] if splits else 0))
        assert [part.part for part in parts[id_]] == [number + 1 for number in last]
    added = counts[EventKind.PART_ADDED]
    assert added.total() == sum(int(step.split()[2]) for plan in plans.values() for step in plan if step[0] == "s")
    assert counts[EventKind.FINISHED] == Counter([*plans, *added])
    assert {counts[EventKind.STEP_DONE][id_] for id_ in added} <= {1}
    assert counts[EventKind.LEASE_LOST].total() > 0


def all_events(store: Store) -> Iterator[Event]:
    """All events, oldest first."""
    number = 0
    while some := store.events(number, limit=5_000):
        yield from some
        number = some[-1].number

"""A Hypothesis state machine that runs the same steps on a store and on the memory store.

After each step it compares documents, customers, lanes, counters, events, deadlines and the answers.
"""

from collections.abc import Callable
from itertools import cycle
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from inturn.clock import ManualClock
from inturn.errors import InturnError, NotFoundError
from inturn.model import Document, DocumentState, NewDocument, RateLimit
from inturn.policy import Charge, CostPolicy, Order, Policy, PriorityPolicy, TurnPolicy
from inturn.policy.history import HistorySpan
from inturn.queue import Queue
from inturn.store import Store
from inturn.store_history import HistoryScope
from inturn.store_types import (
    MAX_SEQ,
    Attempt,
    ClaimRequest,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    Outcome,
    OutcomeKind,
    Work,
)
from inturn.stores import open_store
from inturn.testing.contract.harness import ANNA, LEASE, START
from inturn.values import seconds
from inturn.worker_report import WorkerReport

CLOCK_JUMP = seconds(400 * 86_400)
CUSTOMERS = st.sampled_from(["a", "b", "c", "d"])
IDEMPOTENCY_KEYS = st.none() | st.sampled_from(["k1", "k2"])
INDEXES = st.integers(0, 10**6)
GROUPS = st.sampled_from([(None,), (None,), ("g",), ("h", "i"), ("g", None, "h")])
"""The groups of the documents of one call, repeated."""
QUEUE_NAMES = ("default", "ocr", "export")
QUEUES = st.sampled_from([("default",), ("default",), ("ocr",), ("ocr", "default", "export")])
"""The queues of the documents of one call, repeated."""
STEPS = st.sampled_from([(), (), (), ("ocr", "export"), ("default", "ocr", "default")])
"""The steps of the documents of one call; without any, they have the queues above."""
SERVED = st.sampled_from([("default",), ("default",), ("ocr",), ("export", "default"), QUEUE_NAMES, ("unknown",)])
"""The queues that a claim names."""
UNKNOWN_ID = "00000000-0000-7000-9000-000000000000"
NO_OPS = ("prune", "cancel", "heartbeat", "submit again", "outcome again")
CALLS = ("submit", "claim", "claim", *OutcomeKind, *NO_OPS)
POLICIES = st.builds(
    Policy,
    st.builds(
        PriorityPolicy,
        st.sampled_from([seconds(20), seconds(1500)]),
        st.sampled_from([(-1, -3), (-2, -4, -6, -8, -10, -12, -14, -20), (-100,)]),
    ),
    st.builds(
        TurnPolicy,
        st.sampled_from(list(Order)),
        st.sampled_from([seconds(1), seconds(30), seconds(900)]),
        st.sampled_from([2, 3, 10]),
        st.sampled_from(list(Charge)),
        st.sampled_from([0.5, 7 / 8, 1.0]),
        st.sampled_from([0, seconds(2), seconds(30)]),
    ),
    st.sampled_from([CostPolicy(), CostPolicy(1, 0), CostPolicy(0.5, 0.25, 1_000)]),
    st.sampled_from([False, False, True]),
)
SETTING_CHANGES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(dict, weight=st.sampled_from([0.001, 0.5, 1.0, 3.0, 1000.0])),
    st.builds(dict, cap=st.sampled_from([None, 1, 2, 5])),
    st.builds(dict, paused=st.booleans()),
    st.builds(dict, rate=st.sampled_from([None, RateLimit(2, seconds(20)), RateLimit(1, seconds(3))])),
)
QUEUE_CHANGES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(dict, weight=st.sampled_from([0.5, 1.0, 3.0])),
    st.builds(dict, cap=st.sampled_from([None, None, 1, 3])),
    st.builds(dict, rate=st.sampled_from([None, None, RateLimit(2, seconds(20)), RateLimit(1, seconds(3))])),
)


class FixedIds:
    """Sequential ids, equal in both stores."""

    def __init__(self, first: int = 0) -> None:
        self._next = first

    def make(self, n: int, now: int) -> list[str]:
        """Return the next n UUIDs."""
        del now
        first, self._next = self._next, self._next + n
        return [f"00000000-0000-7000-8000-{number:012}" for number in range(first, first + n)]


class StoreStateMachine(RuleBasedStateMachine):
    """The same steps on both stores. Fences may differ in number; the claims they identify are compared."""

    make_store: Callable[[ManualClock], Store]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(START)
        self.stores = (type(self).make_store(self.clock), open_store("memory://", self.clock))
        self.queues = tuple(Queue(store, clock=self.clock, ids=FixedIds()) for store in self.stores)
        self.claims: list[tuple[str, int, int]] = []
        """All claims: the id, and its fence in each store."""
        self.ids: list[str] = []
        self.groups: dict[str, str | None] = {}
        """By id, of documents that were claimed."""
        self.part_ids = FixedIds(first=10**9)
        self.last_events = [0, 0]

    def on_both(self, call: Callable[[int], Any]) -> Any:
        """Call both stores, compare answers or errors, and return the memory store's."""
        answers = []
        for which in (0, 1):
            try:
                answers.append(call(which))
            except InturnError as error:
                answers.append((type(error), str(error)))
        assert answers[0] == answers[1]
        return answers[1]

    # -- steps ------------------------------------------------------------------------------------------------------

    @initialize(policy=POLICIES)
    def begin(self, policy: Policy) -> None:
        self.on_both(lambda which: self.stores[which].set_policy(policy, ANNA))

    @rule(
        by=st.sampled_from(
            [0, 1, 700_000, seconds(2), seconds(15), seconds(61), seconds(1000), -seconds(5), CLOCK_JUMP, -CLOCK_JUMP]
        )
    )
    def advance_clock(self, by: int) -> None:
        self.clock.advance(by)

    @rule(customer=CUSTOMERS, n=st.integers(1, 4), key=IDEMPOTENCY_KEYS)
    def check(self, customer: str, n: int, key: str | None) -> None:
        self.on_both(lambda which: self.stores[which].check(customer, n, key=key))

    @rule(
        customer=CUSTOMERS,
        n=st.integers(1, 6),
        key=IDEMPOTENCY_KEYS,
        cost=st.sampled_from([0.5, 1.0, 7.0]),
        pages=st.sampled_from([None, 3]),
        delay=st.sampled_from([0, 0, 0, seconds(3)]),
        start_in=st.sampled_from([None, None, seconds(10)]),
        attempts=st.integers(1, 3),
        groups=GROUPS,
        queues=QUEUES,
        steps=STEPS,
    )
    def submit(  # noqa: PLR0913, PLR0917 - drawn by Hypothesis
        self,
        customer: str,
        n: int,
        key: str | None,
        cost: float,
        delay: int,
        start_in: int | None,
        attempts: int,
        pages: int | None = None,
        groups: tuple[str | None, ...] = (None,),
        queues: tuple[str, ...] = ("default",),
        steps: tuple[str, ...] = (),
    ) -> None:
        start_by = None if start_in is None else self.clock.now() + start_in
        document = NewDocument("x", cost=cost, pages=pages, delay=delay, start_by=start_by, max_attempts=attempts)
        parts = zip(cycle(groups), cycle(queues), range(n), strict=False)
        places = [(group, {"steps": steps} if steps else {"queue": queue}) for group, queue, _ in parts]
        documents = [document._replace(group=group, **place) for group, place in places]
        answer = self.on_both(lambda which: self.queues[which].submit(customer, documents, key=key))
        if not isinstance(answer[0], type):
            self.ids += [receipt.id for receipt in answer if receipt.id not in self.ids]

    @rule(n=st.integers(1, 12), queues=SERVED)
    def claim(self, n: int, queues: tuple[str, ...]) -> None:
        self._ack_and_claim([], n, queues)

    @rule(
        which=st.lists(st.tuples(INDEXES, st.sampled_from(list(OutcomeKind)), st.booleans()), max_size=4),
        n=st.integers(0, 6),
        queues=SERVED,
    )
    def ack_and_claim(self, which: list[tuple[int, OutcomeKind, bool]], n: int, queues: tuple[str, ...]) -> None:
        """Record outcomes of current and old claims, then claim."""
        picked = [(self._pick_claim(pick), kind, pick + final) for pick, kind, final in which if self.claims]
        self._ack_and_claim(picked, n, queues)

    @rule(name=st.sampled_from(["w1", "w2"]), slots=st.integers(0, 6), stopping=st.booleans(), queues=SERVED)
    def record_worker(self, name: str, slots: int, stopping: bool, queues: tuple[str, ...]) -> None:  # noqa: FBT001 - drawn by Hypothesis
        """Report slots, of which a customer may hold a share."""
        report = WorkerReport(name, "host", 1, slots, 0, "processor", 0, stopping=stopping, queues=queues)
        self.on_both(lambda which: self.stores[which].record_worker(report))

    @rule(pick=st.lists(INDEXES, min_size=1, max_size=4), lease=st.sampled_from([seconds(5), LEASE]))
    @precondition(lambda self: bool(self.claims))
    def heartbeat(self, pick: list[int], lease: int) -> None:
        """Renew the leases of current and old claims."""
        claims = [self._pick_claim(index) for index in pick]
        self.on_both(
            lambda which: self.stores[which].heartbeat([(id_, fences[which]) for id_, *fences in claims], lease)
        )

    @rule(pick=st.lists(INDEXES, min_size=1, max_size=3), what=st.sampled_from(["cancel", "retry", "from start"]))
    @precondition(lambda self: bool(self.ids))
    def cancel_or_retry(self, pick: list[int], what: str) -> None:
        ids = [self.ids[index % len(self.ids)] for index in pick]
        if what == "cancel":
            self.on_both(lambda which: self.stores[which].cancel(ids, ANNA))
        else:
            self.on_both(lambda which: self.stores[which].retry(ids, ANNA, from_start=what == "from start"))

    @rule(pick=INDEXES, undo=st.booleans())
    @precondition(lambda self: bool(self.ids))
    def expedite(self, pick: int, undo: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        id_ = self.ids[pick % len(self.ids)]
        self.on_both(lambda which: self.stores[which].expedite(id_, ANNA, undo=undo))

    @rule(customer=CUSTOMERS)
    def purge(self, customer: str) -> None:
        self.on_both(lambda which: _with_sorted_blobs(self.stores[which].purge(customer, ANNA)))

    @rule(customer=CUSTOMERS, changes=SETTING_CHANGES)
    def change_customer(self, customer: str, changes: dict[str, Any]) -> None:
        self.on_both(lambda which: self.stores[which].change_customer(customer, changes, ANNA))

    @rule(what=st.sampled_from(["pause", "resume", "resume"]), queue=st.sampled_from([None, None, *QUEUE_NAMES]))
    def pause_or_resume(self, what: str, queue: str | None) -> None:
        self.on_both(lambda which: getattr(self.stores[which], what)(ANNA, queue=queue))

    @rule(name=st.sampled_from(QUEUE_NAMES), changes=QUEUE_CHANGES)
    def change_queue(self, name: str, changes: dict[str, Any]) -> None:
        self.on_both(lambda which: self.stores[which].change_queue(name, changes, ANNA))

    @rule(policy=POLICIES)
    def set_policy(self, policy: Policy) -> None:
        self.on_both(lambda which: self.stores[which].set_policy(policy, ANNA))

    @rule()
    def sweep(self) -> None:
        self.on_both(lambda which: self.stores[which].sweep())

    @rule(ago=st.sampled_from([0, seconds(10)]), limit=st.integers(1, 5))
    def prune(self, ago: int, limit: int) -> None:
        self.on_both(lambda which: _with_sorted_blobs(self.stores[which].prune(self.clock.now() - ago, limit=limit)))

    @rule(what=st.sampled_from(NO_OPS), pick=INDEXES)
    def write_no_op(self, what: str, pick: int) -> None:
        """Run a write transaction that changes no row."""
        nothing: dict[str, Callable[[Store], Any]] = {
            "prune": lambda store: store.prune(0, limit=10),
            "cancel": lambda store: store.cancel([UNKNOWN_ID], ANNA),
            "heartbeat": lambda store: store.heartbeat([(UNKNOWN_ID, 1)], LEASE),
        }
        if what in nothing:
            self.on_both(lambda which: nothing[what](self.stores[which]))
        elif what == "submit again":
            self.on_both(lambda which: self.queues[which].submit("a", [NewDocument("x")], key="repeated"))
        elif self.claims:
            self._ack_and_claim([(self._pick_claim(pick), OutcomeKind.DONE, pick)], 0)

    @rule(calls=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(CALLS), INDEXES), min_size=2, max_size=9))
    @precondition(lambda self: self._has_clients())
    def interleave_clients(self, calls: list[tuple[int, str, int]]) -> None:
        """Interleave writes of several clients of one store, in one or several processes."""
        for opening, call, pick in calls:
            self.stores[0].use(opening)  # type: ignore[attr-defined]  # see the precondition
            if call == "submit":
                groups = (("g", None), ("h",))[pick % 2]
                queues = (("default",), ("ocr", "default"))[pick % 2]
                self.submit("abcd"[pick % 4], 1 + pick % 3, None, 1.0, 0, None, 3, groups=groups, queues=queues)
            elif call == "claim":
                self._ack_and_claim([], 1 + pick % 2, (("default",), ("ocr",), QUEUE_NAMES)[pick % 3])
            elif call in NO_OPS:
                self.write_no_op(call, pick)
            elif self.claims:
                self._ack_and_claim([(self._pick_claim(pick), OutcomeKind(call), pick)], pick % 2)

    # -- comparisons ------------------------------------------------------------------------------------------------

    @invariant()
    def documents_are_the_same(self) -> None:
        """Compare everything but the numbers of fences."""
        self.on_both(
            lambda which: [_without_fence(document) for document in self._documents(which, DocumentSort.NEWEST)]
        )
        self.on_both(lambda which: self.stores[which].counts(DocumentFilter()))

    @invariant()
    def customers_are_the_same(self) -> None:
        self.on_both(lambda which: self.stores[which].customers(CustomerFilter(), limit=100))

    @invariant()
    def events_are_the_same(self) -> None:
        """Compare everything but the numbers, which only have to grow."""
        news = []
        for which in (0, 1):
            events = self.stores[which].events(self.last_events[which], limit=1_000)
            numbers = [self.last_events[which], *(event.number for event in events)]
            assert numbers == sorted(set(numbers))
            self.last_events[which] = numbers[-1]
            news.append([event[1:] for event in events])
        assert news[0] == news[1]

    @invariant()
    def lanes_are_the_same(self) -> None:
        """Compare lanes after every step, except with several clients: a recount applies the lane log."""
        if not self._has_clients():
            self.compare_lanes()

    @rule()
    def compare_lanes(self) -> None:
        """Compare virtual times, the overdue slot and deadlines, and recount."""
        for queue in (*QUEUE_NAMES, "unknown"):
            self.on_both(lambda which, queue=queue: self.stores[which].scheduler_snapshot(queue))  # type: ignore[misc]
        self.on_both(lambda which: self.stores[which].queues())
        self.on_both(self._work)
        self.on_both(self._places)
        assert self.on_both(lambda which: self.stores[which].recount(repair=False)) == ()
        self.on_both(lambda which: self.stores[which].next_due())  # after the recount, which applies new settings
        self.on_both(lambda which: self.stores[which].paused())
        self.on_both(lambda which: self.stores[which].ahead_of_clock())

    def _work(self, which: int) -> tuple[Any, ...]:
        """Return the work of the last minute; fences only have to grow."""
        now = self.clock.now()
        ended, running = self.stores[which].work_between(now - seconds(60), now)
        return ended, [claim._replace(fence=0) for claim in running]

    def _places(self, which: int) -> list[int]:
        """Return the documents ahead of the newest ones that wait, in their lanes."""
        where = DocumentFilter(states=frozenset({DocumentState.WAITING}), customer="a")
        waiting = self.stores[which].documents(where, limit=4).items
        return [self.stores[which].ahead_in_lane(document.id) for document in waiting]

    @rule(limit=st.sampled_from([1, 3, 1_000]))
    def fold_history(self, limit: int) -> None:
        self.on_both(lambda which: self.stores[which].history.fold(limit=limit))
        self.on_both(self._history)

    def _history(self, which: int) -> Any:
        history = self.stores[which].history
        spans = [(span, scope) for span in HistorySpan for scope in HistoryScope]
        return history.cursor(), [history.rows(*key, 0, MAX_SEQ) for key in spans]

    def teardown(self) -> None:
        """Compare all attempts, then claim everything and compare the order."""
        self.compare_lanes()
        self.on_both(
            lambda which: [_without_fence(document) for document in self._documents(which, DocumentSort.OLDEST)]
        )
        self.on_both(lambda which: [self._attempts(which, id_) for id_ in self.ids])
        self.on_both(lambda which: [self._results(which, id_) for id_ in self.ids])
        for queue in (None, *QUEUE_NAMES):
            self.on_both(lambda which, queue=queue: self.stores[which].resume(ANNA, queue=queue))  # type: ignore[misc]
        for _ in range(200):
            if not self._ack_and_claim([], 3, QUEUE_NAMES):
                break
        for store in self.stores:
            store.close()

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _has_clients(self) -> bool:
        return hasattr(self.stores[0], "use")

    def _pick_claim(self, pick: int) -> tuple[str, int, int]:
        """Pick one of the last 8 claims: old ones are all stale."""
        recent = self.claims[-8:]
        return recent[pick % len(recent)]

    def _ack_and_claim(
        self,
        picked: list[tuple[tuple[str, int, int], OutcomeKind, int]],
        n: int,
        queues: tuple[str, ...] = ("default",),
    ) -> int:
        request = ClaimRequest("worker", n, LEASE, queues) if n else None
        fences: list[list[int]] = [[], []]
        drawn = [(claim, self._outcome(claim[0], kind, pick)) for claim, kind, pick in picked]

        def call(which: int) -> Any:
            outcomes = [outcome._replace(fence=both[which]) for (_, *both), outcome in drawn]
            statuses, claims = self.stores[which].ack_and_claim(outcomes, request)
            fences[which] = [claim.fence for claim in claims]
            assert fences[which] == sorted(set(fences[which]))
            return statuses, [_without_fence(claim.document) for claim in claims]

        _, documents = self.on_both(call)
        self.claims += [(document.id, *both) for document, *both in zip(documents, *fences, strict=True)]
        self.groups |= {document.id: document.spec.group for document in documents}
        return len(documents)

    def _outcome(self, id_: str, kind: OutcomeKind, pick: int) -> Outcome:
        """Build an outcome without its fence. Queues, parts and what is final follow from the number."""
        outcome = Outcome(id_, 0, kind, "1", "failed", seconds(2) if pick % 2 else None, work=_work_report(id_))
        if kind not in {OutcomeKind.NEXT, OutcomeKind.SPLIT}:
            return outcome
        outcome = outcome._replace(queue=QUEUE_NAMES[pick % 3], ahead=((), ("export",), ("ocr", "default"))[pick % 3])
        if kind is OutcomeKind.NEXT:
            return outcome
        ids = self.part_ids.make(1 + pick % 3, 0)
        self.ids += ids
        part = NewDocument(
            "part", group=self.groups.get(id_), max_attempts=2, delay=(0, 0, seconds(3))[pick % 3], pages=pick % 5
        )
        places = [{"queue": "ocr"}, {"steps": ("default", "export")}, {}]
        parts = [part._replace(**places[(pick + n) % 3]) for n in range(len(ids))]  # type: ignore[arg-type]
        return outcome._replace(parts=tuple(zip(ids, parts, strict=True)))

    def _results(self, which: int, id_: str) -> Any:
        store = self.stores[which]
        try:
            return store.results(id_), store.parts(id_, limit=10)
        except NotFoundError:
            return None

    def _attempts(self, which: int, id_: str) -> list[Attempt] | None:
        try:
            return [attempt._replace(fence=-1) for attempt in self.stores[which].attempts(id_)]
        except NotFoundError:
            return None

    def _documents(self, which: int, sort: DocumentSort) -> list[Document]:
        documents: list[Document] = []
        after: str | None = None
        while True:
            page = self.stores[which].documents(DocumentFilter(), limit=50, after=after, sort=sort)
            documents += page.items
            after = page.next
            if after is None:
                return documents


def same_steps(make_store: Callable[[ManualClock], Store]) -> type[StoreStateMachine]:
    """Return the state machine for stores made by `make_store`; pytest runs its `TestCase`."""
    return type("SameSteps", (StoreStateMachine,), {"make_store": staticmethod(make_store)})


def _work_report(id_: str) -> Work | None:
    """Vary the reported processing times: none, plausible, too long."""
    return (None, Work(seconds(3), seconds(2)), Work(seconds(90), seconds(90)))[int(id_[-1], 16) % 3]


def _without_fence(document: Document) -> Document:
    return document._replace(fence=None if document.fence is None else -1)


def _with_sorted_blobs(pruned: Any) -> Any:
    return pruned._replace(blobs=tuple(sorted(pruned.blobs)))

"""All customers in memory: searched, sorted, and brought up to date."""

import threading

import pytest

from inturn.clock import ManualClock
from inturn.errors import StoreError
from inturn.insights import CustomerEntry, CustomerIndex, SortBy, customer_index
from inturn.model import NewDocument
from inturn.policy import PriorityPolicy
from inturn.queue import Queue
from inturn.store_types import CustomerFilter, Operator
from inturn.stores.memory import MemoryStore

ANNA = Operator("anna", "")
ALL_USERS = CustomerFilter()
WAITING = SortBy(lambda item: item.waiting, is_descending=True)
MINUTE = 60_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> Queue:
    made = Queue(MemoryStore(clock), clock=clock)
    for name, n in (("b", 2), ("a", 1), ("c", 2), ("D", 5)):
        made.submit(name, [NewDocument("x")] * n)
    return made


@pytest.fixture
def kept(queue: Queue, clock: ManualClock) -> CustomerIndex:
    return CustomerIndex(queue, clock)


def names(kept: CustomerIndex, sort: SortBy = WAITING, where: CustomerFilter = ALL_USERS) -> list[str]:
    return list(kept.page(where, sort, limit=100, after=0).names)


def feed_events(kept: CustomerIndex, queue: Queue) -> None:
    kept.on_events(queue.store.events(0, limit=1_000))


def in_peace() -> None:
    """Until nobody reads beside us."""
    for thread in threading.enumerate():
        if thread.name == "inturn-customer-index":
            thread.join()


def test_customers_come_by_figure_and_equals_by_name(kept: CustomerIndex) -> None:
    assert names(kept) == ["D", "b", "c", "a"]
    assert names(kept, SortBy(lambda item: item.waiting)) == ["a", "b", "c", "D"]
    assert names(kept, SortBy()) == ["a", "b", "c", "D"]
    assert names(kept, SortBy(is_descending=True)) == ["D", "c", "b", "a"]


def test_who_has_no_figure_comes_last_either_way(kept: CustomerIndex) -> None:
    def odd(customer: CustomerEntry) -> float | None:
        return customer.waiting if customer.name in "ab" else None

    assert names(kept, SortBy(odd)) == ["a", "b", "c", "D"]
    assert names(kept, SortBy(odd, is_descending=True)) == ["b", "a", "c", "D"]


def test_pages_have_their_total(kept: CustomerIndex, queue: Queue) -> None:
    queue.change_customer("c", ANNA, paused=True)
    assert kept.page(CustomerFilter(waiting=True), WAITING, limit=2, after=1) == (("b", "c"), 4)
    assert kept.page(CustomerFilter(paused=True), WAITING, limit=2, after=0).names == ("c",)


def test_text_is_looked_for_in_the_name_and_in_the_name_that_is_shown(kept: CustomerIndex, queue: Queue) -> None:
    queue.change_customer("a", ANNA, display_name="Zoë Ltd")
    assert names(kept, SortBy(), CustomerFilter(text="ZOË")) == ["a"]
    assert names(kept, SortBy(), CustomerFilter(text="A")) == ["a"]
    assert names(kept, SortBy()) == ["b", "c", "D", "a"]


def test_who_is_heard_of_is_read_again_and_others_are_not(kept: CustomerIndex, queue: Queue) -> None:
    assert names(kept) == ["D", "b", "c", "a"]
    queue.submit("a", [NewDocument("x")] * 9)
    queue.submit("new", [NewDocument("x")] * 7)
    assert names(kept) == ["D", "b", "c", "a"]
    feed_events(kept, queue)
    assert names(kept) == ["a", "new", "D", "b", "c"]


def test_a_search_finds_who_was_only_checked(kept: CustomerIndex, queue: Queue) -> None:
    names(kept)
    queue.check("elsewhere", 3)
    assert names(kept) == ["D", "b", "c", "a"]
    assert names(kept, where=CustomerFilter(text="ELSE")) == ["elsewhere"]
    assert names(kept) == ["D", "b", "c", "a", "elsewhere"]


def test_a_search_finds_the_very_first_who_was_only_checked(clock: ManualClock) -> None:
    queue = Queue(MemoryStore(clock), clock=clock)
    customer_index = CustomerIndex(queue, clock)
    assert names(customer_index) == []
    queue.check("elsewhere", 3)
    assert names(customer_index, where=CustomerFilter(text="else")) == names(customer_index) == ["elsewhere"]


def test_everybody_is_read_again_in_a_while_beside_those_who_ask(
    kept: CustomerIndex, queue: Queue, clock: ManualClock
) -> None:
    names(kept)
    queue.check("a", 30)  # for a queue elsewhere: no event tells of it
    lowest = SortBy(lambda item: item.next_count(PriorityPolicy(), clock.now()))
    clock.advance(MINUTE - 1)
    names(kept)
    in_peace()
    assert names(kept, lowest)[0] == "D"
    clock.advance(1)
    names(kept)
    in_peace()
    assert names(kept, lowest)[0] == "a"


def test_after_too_many_changes_everybody_is_read_again(
    kept: CustomerIndex, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(customer_index, "MAX_STALE_CUSTOMERS", 2)
    names(kept)
    queue.submit("a", [NewDocument("x")] * 9)
    feed_events(kept, queue)
    names(kept)
    in_peace()
    assert names(kept)[0] == "a"


def test_a_store_that_does_not_answer_leaves_what_was_known(
    kept: CustomerIndex, queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(queue.store, "customer_summaries", broken)
        with pytest.raises(StoreError):
            names(kept)
    assert names(kept)[0] == "D"
    with monkeypatch.context() as patched:
        patched.setattr(queue.store, "customer_summaries", broken)
        clock.advance(2 * MINUTE)
        assert names(kept)[0] == "D"
        in_peace()
    queue.submit("a", [NewDocument("x")] * 9)
    names(kept)
    in_peace()
    assert names(kept)[0] == "a"


def test_a_counter_starts_anew_only_after_more_than_the_interval(queue: Queue) -> None:
    policy = PriorityPolicy()
    entry = customer_index.entry_from_customer(queue.customer("D"))
    assert entry.updated_at is not None
    assert entry.next_count(policy, entry.updated_at + policy.reset_interval) == -5
    assert entry.next_count(policy, entry.updated_at + policy.reset_interval + 1) == 0

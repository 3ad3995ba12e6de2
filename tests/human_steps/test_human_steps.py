"""People take documents by hand: in order, under a fence, and with what the form asks for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.errors import IllegalTransitionError, InvalidInputError, NotFoundError, StaleFenceError
from inturn.human_steps import HumanSteps
from inturn.insights import waiting_in_order
from inturn.model import DocumentState
from inturn.policy import Order, Policy, TurnPolicy
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.testing.contract.harness import ANNA, START, UNKNOWN_ID, StoreHarness
from inturn.values import seconds

CHECK, EXPORT = "check", "export"


@pytest.fixture(params=["memory", "sqlite"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    clock = ManualClock(START)
    store = open_store("memory://" if request.param == "memory" else str(tmp_path / "queue.db"), clock)
    made = StoreHarness(store, clock)
    made.queue.change_queue(CHECK, ANNA, manual=True)
    made.queue.change_queue(EXPORT, ANNA)
    yield made
    store.close()


@pytest.fixture
def people(harness: StoreHarness) -> HumanSteps:
    return HumanSteps(harness.queue, "anna")


def test_person_takes_the_next_document_for_half_an_hour(harness: StoreHarness, people: HumanSteps) -> None:
    first = harness.submit_one("acme", queue=CHECK)
    harness.submit("acme", 2, queue=CHECK)
    taken = people.take(CHECK)
    assert taken.claim is not None
    document = taken.claim.document
    assert (document.id, document.worker, taken.waiting) == (first, "person:anna", 2)
    assert document.lease_until == START + seconds(1_800)


def test_nothing_is_taken_from_an_empty_or_paused_queue(harness: StoreHarness, people: HumanSteps) -> None:
    assert people.take(CHECK) == (None, 0)
    harness.submit("acme", 2, queue=CHECK)
    harness.queue.pause(ANNA, queue=CHECK)
    assert people.take(CHECK) == (None, 2)


def test_only_queues_that_people_serve(harness: StoreHarness, people: HumanSteps) -> None:
    harness.submit("acme", 1, queue=EXPORT)
    with pytest.raises(IllegalTransitionError, match="people do not serve the queue export"):
        people.take(EXPORT)
    with pytest.raises(NotFoundError, match="there is no queue 'nowhere'"):
        people.take("nowhere")
    (claimed,) = harness.queue.claim("w1", queues=[EXPORT])
    with pytest.raises(IllegalTransitionError, match="is being processed by the worker w1"):
        people.finish(claimed.document.id, claimed.fence, 1)


def test_result_is_recorded_and_the_document_goes_to_its_next_step(harness: StoreHarness, people: HumanSteps) -> None:
    id_ = harness.submit_one("acme", steps=[CHECK, EXPORT])
    taken = people.take(CHECK).claim
    assert taken is not None
    document = people.finish(id_, taken.fence, {"ok": True})
    assert (document.state, document.queue, document.step) == (DocumentState.WAITING, EXPORT, 1)
    assert [(result.queue, result.result) for result in harness.queue.results(id_)] == [(CHECK, '{"ok": true}')]


def test_person_may_name_the_next_queue_if_there_is_one(harness: StoreHarness, people: HumanSteps) -> None:
    id_ = harness.submit_one("acme", queue=CHECK)
    taken = people.take(CHECK).claim
    assert taken is not None
    with pytest.raises(NotFoundError, match="there is no queue 'exprot'"):
        people.finish(id_, taken.fence, 1, to="exprot")
    assert people.finish(id_, taken.fence, 1, to=EXPORT).queue == EXPORT
    assert [status.name for status in harness.queue.queues()] == ["default", CHECK, EXPORT]


def test_result_must_fit_the_form(harness: StoreHarness, people: HumanSteps) -> None:
    harness.queue.change_queue(CHECK, ANNA, form=[{"name": "total", "kind": "number", "required": True}])
    id_ = harness.submit_one("acme", queue=CHECK)
    taken = people.take(CHECK).claim
    assert taken is not None
    with pytest.raises(InvalidInputError, match="total: it is required"):
        people.finish(id_, taken.fence, {})
    assert harness.state(id_) is DocumentState.RUNNING
    assert people.finish(id_, taken.fence, {"total": 3}).state is DocumentState.DONE
    assert harness.queue.result(id_) == {"total": 3}


def test_released_document_keeps_place_and_attempts(harness: StoreHarness, people: HumanSteps) -> None:
    id_ = harness.submit_one("acme", queue=CHECK)
    harness.submit("acme", 1, queue=CHECK)
    taken = people.take(CHECK).claim
    assert taken is not None
    document = people.release(id_, taken.fence)
    assert (document.state, document.attempt) == (DocumentState.WAITING, 0)
    again = HumanSteps(harness.queue, "bert").take(CHECK).claim
    assert again is not None
    assert again.document.id == id_


def test_rejected_document_fails_for_good_with_the_reason(harness: StoreHarness, people: HumanSteps) -> None:
    id_ = harness.submit_one("acme", queue=CHECK, max_attempts=9)
    taken = people.take(CHECK).claim
    assert taken is not None
    with pytest.raises(InvalidInputError, match="with a reason"):
        people.reject(id_, taken.fence, "  ")
    document = people.reject(id_, taken.fence, "no invoice")
    assert (document.state, document.error) == (DocumentState.FAILED, "no invoice")


def test_lease_is_extended_and_ends_by_the_ordinary_rules(harness: StoreHarness, people: HumanSteps) -> None:
    id_ = harness.submit_one("acme", queue=CHECK)
    taken = people.take(CHECK, lease=seconds(60)).claim
    assert taken is not None
    harness.advance(50)
    assert people.extend(id_, taken.fence, lease=seconds(60)).lease_until == START + seconds(110)
    harness.advance(50)
    harness.store.sweep()
    assert harness.state(id_) is DocumentState.RUNNING
    harness.advance(10)
    for state in (DocumentState.RUNNING, DocumentState.WAITING):
        assert harness.state(id_) is state
        for act in (
            lambda: people.extend(id_, taken.fence),
            lambda: people.finish(id_, taken.fence, 1),
            lambda: people.release(id_, taken.fence),
            lambda: people.reject(id_, taken.fence, "no"),
        ):
            with pytest.raises(StaleFenceError, match="no longer holds"):
                act()
        harness.advance(1)
        harness.store.sweep()


def test_repeated_call_has_the_same_answer_and_another_is_refused(harness: StoreHarness, people: HumanSteps) -> None:
    """An answer may be lost on its way: the person repeats the call."""
    finished = harness.submit_one("acme", steps=[CHECK, EXPORT])
    rejected, released = harness.submit_one("acme", queue=CHECK), harness.submit_one("acme", queue=CHECK)
    fences = {}
    for _ in range(3):
        claim = people.take(CHECK).claim
        assert claim is not None
        fences[claim.document.id] = claim.fence
    for _ in range(2):
        assert people.finish(finished, fences[finished], 1).queue == EXPORT
        assert people.reject(rejected, fences[rejected], "no").state is DocumentState.FAILED
        assert people.release(released, fences[released]).state is DocumentState.WAITING
    assert len(harness.queue.results(finished)) == 1
    with pytest.raises(StaleFenceError):
        people.reject(finished, fences[finished], "no")
    with pytest.raises(StaleFenceError):
        people.finish(rejected, fences[rejected], 1)
    with pytest.raises(NotFoundError):
        people.finish(UNKNOWN_ID, 1, 1)


@pytest.mark.parametrize("steps", [[CHECK], [CHECK, EXPORT], [CHECK, EXPORT, "default"]])
@pytest.mark.parametrize("to", [None, EXPORT, "default"])
def test_different_finish_under_a_used_fence_is_refused(
    harness: StoreHarness, people: HumanSteps, steps: list[str], to: str | None
) -> None:
    """The person learns that what is recorded is not what was sent now."""
    harness.queue.change_queue(CHECK, ANNA, form=[{"name": "a"}, {"name": "b"}])
    id_ = harness.submit_one("acme", steps=steps)
    taken = people.take(CHECK).claim
    assert taken is not None
    answer = {"b": "2", "a": None}
    recorded = people.finish(id_, taken.fence, answer, to=to)
    assert people.finish(id_, taken.fence, answer, to=to) == recorded
    different = [({"b": "3"}, to), ({"c": "2"}, to), (answer, CHECK)]
    if to == "default" or (to is not None and len(steps) == 1):
        different.append((answer, None))
    for other, other_to in different:
        with pytest.raises(IllegalTransitionError, match="with another result or for another queue"):
            people.finish(id_, taken.fence, other, to=other_to)
    harness.queue.change_queue(CHECK, ANNA, form=[{"name": "c"}])
    assert harness.queue.results(id_)[-1].result == '{"b": "2"}'
    assert people.finish(id_, taken.fence, {"b": "2"}, to=to) == recorded


def test_old_fence_does_nothing_to_a_document_that_another_person_has(
    harness: StoreHarness, people: HumanSteps
) -> None:
    id_ = harness.submit_one("acme", queue=CHECK)
    old = people.take(CHECK).claim
    assert old is not None
    people.release(id_, old.fence)
    new = HumanSteps(harness.queue, "bert").take(CHECK).claim
    assert new is not None
    for act in (lambda: people.finish(id_, old.fence, 1), lambda: people.release(id_, old.fence)):
        with pytest.raises(StaleFenceError):
            act()
    assert harness.document(id_).worker == "person:bert"


def test_colleague_does_nothing_to_a_document_under_its_fence(harness: StoreHarness, people: HumanSteps) -> None:
    """What is recorded stands under the name of the person who took it."""
    id_ = harness.submit_one("acme", queue=CHECK)
    taken, bert = people.take(CHECK).claim, HumanSteps(harness.queue, "bert")
    assert taken is not None
    for act in (
        lambda: bert.extend(id_, taken.fence),
        lambda: bert.finish(id_, taken.fence, 1),
        lambda: bert.release(id_, taken.fence),
        lambda: bert.reject(id_, taken.fence, "no"),
    ):
        with pytest.raises(IllegalTransitionError, match="taken by anna, not by bert"):
            act()
    assert harness.document(id_).worker == "person:anna"
    assert people.finish(id_, taken.fence, 1).state is DocumentState.DONE


@pytest.mark.parametrize("order", Order)
def test_list_has_the_order_in_which_documents_are_taken(
    harness: StoreHarness, people: HumanSteps, order: Order
) -> None:
    """Levels, turns of customers, groups and an expedited document decide, not the time alone."""
    harness.queue.set_policy(Policy(turns=TurnPolicy(order, overdue_every=1_000)), Operator("anna", ""))
    harness.submit("acme", 12, queue=CHECK)
    for group in ("a", "a", "b"):
        harness.submit("beta", 1, queue=CHECK, group=group)
    harness.submit("gamma", 4, queue=CHECK)
    harness.queue.expedite(harness.submit("acme", 1, queue=CHECK)[0].id, ANNA)
    harness.submit("delta", 2, queue=CHECK)
    harness.queue.change_customer("delta", ANNA, paused=True)
    listed = waiting_in_order(harness.queue, CHECK, limit=100)
    assert [item.document.customer for item in listed if item.place is None] == ["delta", "delta"]
    open_ones = [item.document.id for item in listed if item.place is not None]
    assert [item.place for item in listed[:20]] == list(range(20))
    few = waiting_in_order(harness.queue, CHECK, limit=5)
    assert [item.document.id for item in few] == open_ones[:5]
    taken = []
    while (claim := people.take(CHECK).claim) is not None:
        taken.append(claim.document.id)
    assert taken == open_ones

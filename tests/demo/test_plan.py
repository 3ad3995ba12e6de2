"""The plan: who sends what, and when."""

from collections import Counter

import pytest

from demo.documents import KINDS, make_binder
from demo.workload import BINDER, BULK, CUSTOMERS, FLOOD, LATE, MIN_DOCUMENTS, TRICKLE, plan_submissions


@pytest.mark.parametrize("number", [MIN_DOCUMENTS, 24, 400, 1_001])
def test_everybody_sends_and_the_numbers_add_up(number: int) -> None:
    coming = plan_submissions(number)
    assert len(coming) == number
    assert {planned_submission.customer for planned_submission in coming} == set(CUSTOMERS)
    assert coming == sorted(coming, key=lambda planned_submission: planned_submission.at)
    assert coming == plan_submissions(number)


def test_one_floods_one_comes_late_one_trickles() -> None:
    coming = plan_submissions(400)
    numbers = Counter(planned_submission.customer for planned_submission in coming)
    times = {
        name: [planned_submission.at for planned_submission in coming if planned_submission.customer == name]
        for name in CUSTOMERS
    }
    assert numbers[FLOOD] > 200
    assert set(times[FLOOD]) == {0.0}
    assert len(set(times[BULK])) == len(set(times[LATE])) == 1
    assert 0 < times[BULK][0] < times[LATE][0] < coming[-1].at
    assert len(set(times[TRICKLE])) == numbers[TRICKLE]


def test_all_kinds_come() -> None:
    assert {plan_submission.kind for plan_submission in plan_submissions(400)} == {BINDER, *KINDS}


def test_a_binder_has_the_pages_it_was_asked_for_and_a_few_more() -> None:
    made = make_binder(7, 60)
    assert 60 <= made.pages < 70
    assert made.data.count(b"/Type /Page ") == made.pages
    assert made == make_binder(7, 60)
    assert made.data != make_binder(8, 60).data

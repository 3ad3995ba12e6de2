"""When a maintenance round may delete."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.policy.retention import (
    MAX_CHECKPOINTS,
    MAX_DRIFT,
    MIN_SETTLED_UPTIME,
    Checkpoint,
    ClockJudgement,
    ClockReading,
    ClockTrust,
    Decision,
    decide,
    is_reference,
    judge_clock,
    last_prunable_seq,
    with_checkpoint,
)
from inturn.values import SECOND

DAY = 86_400 * SECOND
NOW = 1_700_000_000 * SECOND
VERIFIED, UNVERIFIED, CONTRADICTED = ClockTrust
DELETE, SKIP, REFUSE = Decision


@given(st.integers(0, 10**16), st.integers(-(10**16), 10**16))
def test_within_one_boot_the_kernel_tells_how_much_time_has_passed(passed: int, drift: int) -> None:
    last = ClockReading(NOW, "boot", DAY)
    now = ClockReading(NOW + passed + drift, "boot", DAY + passed)
    assert judge_clock(last, now) == (VERIFIED if abs(drift) <= MAX_DRIFT else CONTRADICTED, drift)


@pytest.mark.parametrize(
    "now",
    [ClockReading(0, "other", 5 * DAY), ClockReading(0), ClockReading(0, "boot")],
    ids=["rebooted", "no kernel", "no uptime"],
)
@pytest.mark.parametrize(
    ("gap", "trust"), [(0, VERIFIED), (DAY, VERIFIED), (-DAY, VERIFIED), (DAY + 1, UNVERIFIED), (-DAY - 1, UNVERIFIED)]
)
def test_otherwise_a_day_is_believed(now: ClockReading, gap: int, trust: ClockTrust) -> None:
    assert judge_clock(ClockReading(NOW, "boot", DAY), now._replace(at=NOW + gap)) == (trust, gap)


@pytest.mark.parametrize(
    ("trust", "old", "ended", "decision"),
    [
        (VERIFIED, 100, 100, DELETE),
        (VERIFIED, 0, 0, DELETE),
        (UNVERIFIED, 0, 0, SKIP),
        (UNVERIFIED, 0, 5, SKIP),
        (UNVERIFIED, 1, 1, REFUSE),
        (UNVERIFIED, 1, 2, DELETE),
        (UNVERIFIED, 2, 11, DELETE),
        (UNVERIFIED, 3, 11, REFUSE),
        (UNVERIFIED, 100, 1_000, DELETE),
        (UNVERIFIED, 101, 1_000, REFUSE),
        (CONTRADICTED, 0, 5, SKIP),
        (CONTRADICTED, 1, 1_000, REFUSE),
    ],
)
def test_how_much_may_be_deleted(trust: ClockTrust, old: int, ended: int, decision: Decision) -> None:
    assert decide(trust, old, ended) is decision


def test_a_machine_that_has_just_started_is_no_reference() -> None:
    last, fine = ClockReading(NOW, "boot", 1), ClockJudgement(VERIFIED, 0)
    assert is_reference(last, ClockReading(NOW, "boot", 2), fine)
    assert is_reference(None, ClockReading(NOW), fine)
    for before in (last, None):
        assert not is_reference(before, ClockReading(NOW, "other", MIN_SETTLED_UPTIME - 1), fine)
        assert is_reference(before, ClockReading(NOW, "other", MIN_SETTLED_UPTIME), fine)


@pytest.mark.parametrize(
    ("trust", "drift", "is_one"),
    [
        (VERIFIED, -DAY, True),
        (UNVERIFIED, 9 * DAY, True),
        (UNVERIFIED, -9 * DAY, False),
        (CONTRADICTED, 9 * DAY, False),
    ],
)
def test_a_clock_that_is_wrong_or_behind_is_no_reference(trust: ClockTrust, drift: int, *, is_one: bool) -> None:
    assert is_reference(None, ClockReading(NOW), ClockJudgement(trust, drift)) is is_one


def test_checkpoints_are_a_day_apart_and_bounded() -> None:
    known: tuple[Checkpoint, ...] = ()
    for hour in range(24 * 400):
        known = with_checkpoint(known, Checkpoint(NOW + hour * 3_600 * SECOND, hour))
        assert len(known) <= MAX_CHECKPOINTS
    assert all(later.at - earlier.at >= DAY for earlier, later in pairwise(known))
    assert known[-1].at - known[-20].at == 19 * DAY
    assert known[0].at == NOW


def test_a_checkpoint_of_the_future_is_forgotten() -> None:
    assert with_checkpoint((Checkpoint(NOW + 5 * DAY, 9),), Checkpoint(NOW, 3)) == (Checkpoint(NOW, 3),)


def test_what_was_submitted_after_a_checkpoint_is_younger() -> None:
    known = (Checkpoint(10, 100), Checkpoint(20, 200), Checkpoint(30, 300))
    assert [last_prunable_seq(known, before) for before in (5, 10, 11, 20, 30, 31)] == [100, 100, 200, 200, 300, None]
    assert last_prunable_seq((), 5) is None

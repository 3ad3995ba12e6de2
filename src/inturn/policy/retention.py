"""Decide whether a maintenance round may delete what is old: its clock has to agree with that of the last round.

The kernel's uptime is not changed by setting a clock. So between two rounds of one boot it tells how far the clock may
have come. After a reboot, or on another machine, only the share of documents that a round would delete tells.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from inturn.model import SECOND

MAX_DRIFT: Final = 86_400 * SECOND
"""How far a clock may be from where it should be."""
UNVERIFIED_DELETE_DIVISOR: Final = 10
"""A round whose clock cannot be verified may delete one document in so many."""
CHECKPOINT_INTERVAL: Final = 86_400 * SECOND
MAX_CHECKPOINTS: Final = 48
MIN_SETTLED_UPTIME: Final = 3_600 * SECOND
"""A machine that has been up for so long has had time to set its clock."""


class ClockReading(NamedTuple):
    """The time of a round, and how long its machine had been up since which boot, where that is known."""

    at: int
    boot: str | None = None
    uptime: int | None = None


class ClockTrust(StrEnum):
    """Whether a clock agrees with the last round's."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    """The time that has passed since the last round is not known, and the clock says more than a day."""
    CONTRADICTED = "contradicted"
    """The kernel says that another time has passed, by more than a day."""


class ClockJudgement(NamedTuple):
    """A clock's trust, and by how many microseconds it is from where it should be."""

    trust: ClockTrust
    drift: int


def judge_clock(last: ClockReading, now: ClockReading) -> ClockJudgement:
    """Compare the clock of a round with that of the last one."""
    drift = now.at - last.at
    if last.boot is not None and last.boot == now.boot and last.uptime is not None and now.uptime is not None:
        drift -= now.uptime - last.uptime
        trust = ClockTrust.VERIFIED if abs(drift) <= MAX_DRIFT else ClockTrust.CONTRADICTED
    else:
        trust = ClockTrust.VERIFIED if abs(drift) <= MAX_DRIFT else ClockTrust.UNVERIFIED
    return ClockJudgement(trust, drift)


class Decision(StrEnum):
    """What a round does about what is old."""

    DELETE = "delete"
    SKIP = "skip"
    """No document is old: nothing is deleted, and nobody needs to know."""
    REFUSE = "refuse"


def decide(trust: ClockTrust, old: int, ended: int) -> Decision:
    """Whether a round may delete `old` of all `ended` documents."""
    if trust is ClockTrust.VERIFIED:
        return Decision.DELETE
    if old == 0:
        return Decision.SKIP
    few = old <= -(-ended // UNVERIFIED_DELETE_DIVISOR) and old < ended
    return Decision.DELETE if few and trust is ClockTrust.UNVERIFIED else Decision.REFUSE


def is_reference(last: ClockReading | None, now: ClockReading, judgement: ClockJudgement) -> bool:
    """Whether the next round is compared with one that was not refused.

    Not with one whose clock is known to be wrong, or behind. Right after a boot the clock may not have been set yet.
    """
    trust, drift = judgement
    if trust is ClockTrust.CONTRADICTED or (trust is ClockTrust.UNVERIFIED and drift < 0):
        return False
    same_boot = last is not None and last.boot == now.boot
    return same_boot or now.uptime is None or now.uptime >= MIN_SETTLED_UPTIME


class Checkpoint(NamedTuple):
    """What a round whose clock was verified knows: every document with a higher seq was submitted after this time."""

    at: int
    seq: int


def with_checkpoint(known: Sequence[Checkpoint], new: Checkpoint) -> tuple[Checkpoint, ...]:
    """Add a checkpoint, at most one a day; of too many, every second of the older half goes."""
    checkpoints = [checkpoint for checkpoint in known if checkpoint.at <= new.at]
    if not checkpoints or new.at - checkpoints[-1].at >= CHECKPOINT_INTERVAL:
        checkpoints.append(new)
    if len(checkpoints) > MAX_CHECKPOINTS:
        half = MAX_CHECKPOINTS // 2
        checkpoints = [*checkpoints[:half:2], *checkpoints[half:]]
    return tuple(checkpoints)


def last_prunable_seq(checkpoints: Sequence[Checkpoint], before: int) -> int | None:
    """The highest seq of a document that may have been submitted before a time; None: nothing is known of it.

    Whatever a wrong clock wrote into later documents, they are younger.
    """
    return next((checkpoint.seq for checkpoint in checkpoints if checkpoint.at >= before), None)

"""Decide whether a maintenance round may delete old documents: its clock has to agree with the last round's.

Setting a clock does not change the kernel's uptime. Between two rounds of one boot, the uptime therefore verifies the
clock. After a reboot, or on another machine, the decision depends on the share of documents that would be deleted.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from inturn.values import SECOND

MAX_DRIFT: Final = 86_400 * SECOND
"""Allowed difference between a clock and the expected time."""
UNVERIFIED_DELETE_DIVISOR: Final = 10
"""A round with an unverified clock may delete at most one in this many ended documents."""
CHECKPOINT_INTERVAL: Final = 86_400 * SECOND
MAX_CHECKPOINTS: Final = 48
MIN_SETTLED_UPTIME: Final = 3_600 * SECOND
"""After this uptime, a machine has had time to set its clock."""


class ClockReading(NamedTuple):
    """The time of a round, and the boot id and uptime of its machine, where known."""

    at: int
    boot: str | None = None
    uptime: int | None = None


class ClockTrust(StrEnum):
    """Whether the clock of a round agrees with the last round's."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    """The clock shows more than a day since the last round, and no uptime verifies it."""
    CONTRADICTED = "contradicted"
    """Clock and uptime differ by more than a day."""


class ClockJudgement(NamedTuple):
    """The trust in a clock, and its difference from the expected time in microseconds."""

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
    """What a round does with old documents."""

    DELETE = "delete"
    SKIP = "skip"
    """No document is old, so there is nothing to delete or to report."""
    REFUSE = "refuse"


def decide(trust: ClockTrust, old: int, ended: int) -> Decision:
    """Decide whether a round may delete `old` of all `ended` documents."""
    if trust is ClockTrust.VERIFIED:
        return Decision.DELETE
    if old == 0:
        return Decision.SKIP
    few = old <= -(-ended // UNVERIFIED_DELETE_DIVISOR) and old < ended
    return Decision.DELETE if few and trust is ClockTrust.UNVERIFIED else Decision.REFUSE


def is_reference(last: ClockReading | None, now: ClockReading, judgement: ClockJudgement) -> bool:
    """Return whether this round, if not refused, becomes the reference of the next one.

    A round with a wrong or late clock does not. Right after a boot the clock may not have been set yet.
    """
    trust, drift = judgement
    if trust is ClockTrust.CONTRADICTED or (trust is ClockTrust.UNVERIFIED and drift < 0):
        return False
    same_boot = last is not None and last.boot == now.boot
    return same_boot or now.uptime is None or now.uptime >= MIN_SETTLED_UPTIME


class Checkpoint(NamedTuple):
    """A fact from a round with a verified clock: documents with a higher seq were submitted after this time."""

    at: int
    seq: int


def with_checkpoint(known: Sequence[Checkpoint], new: Checkpoint) -> tuple[Checkpoint, ...]:
    """Add a checkpoint, at most one a day. Above the limit, drop every second one of the older half."""
    checkpoints = [checkpoint for checkpoint in known if checkpoint.at <= new.at]
    if not checkpoints or new.at - checkpoints[-1].at >= CHECKPOINT_INTERVAL:
        checkpoints.append(new)
    if len(checkpoints) > MAX_CHECKPOINTS:
        half = MAX_CHECKPOINTS // 2
        checkpoints = [*checkpoints[:half:2], *checkpoints[half:]]
    return tuple(checkpoints)


def last_prunable_seq(checkpoints: Sequence[Checkpoint], before: int) -> int | None:
    """Return the highest seq of a document that may have been submitted before a time; None if unknown.

    Documents with a higher seq are younger, whatever a wrong clock wrote into them.
    """
    return next((checkpoint.seq for checkpoint in checkpoints if checkpoint.at >= before), None)

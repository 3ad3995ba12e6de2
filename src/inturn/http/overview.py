"""`/v1/overview`: the queue at a glance and how it went lately. For operators."""

from typing import Annotated, Final

from fastapi import APIRouter, Query

from inturn.http import schemas
from inturn.http.auth import OperatorsEyes
from inturn.http.course import OVER, Course, Percentiles, Point
from inturn.http.errors import Answers
from inturn.http.scoped import Seen
from inturn.http.shares import Shares
from inturn.insights import AtWork, Board, Busiest, Group
from inturn.model import DocumentState

router: Final = APIRouter(prefix="/v1", tags=["operators"])
TAKERS: Final = 6
HANDS: Final = 20
"""Documents shown of one worker."""


@router.get("/overview", operation_id="getOverview", responses=Answers.of(422))
def overview(
    seen: Seen,
    _: OperatorsEyes,
    since: Annotated[int, Query(ge=0, le=2**62, description="Points of the course after this time alone.")] = 0,
) -> schemas.Overview:
    """Operators: what waits and runs, how long it takes, who gets how much, what workers do, and the last ten minutes.

    Read at most once a second for all who ask; the course is what this server saw since it started.
    """
    course = seen.service.course
    return overview_view(course.now(), course, seen.service.shares, since)


def overview_view(board: Board, course: Course, shares: Shares, since: int) -> schemas.Overview:
    """A board and its course."""
    live, policy = board.live, board.policy.policy
    last = board.last_level
    return schemas.Overview(
        at=live.at,
        paused=None if live.paused is None else schemas.Paused(operator=live.paused.name, why=live.paused.why),
        states={str(state): live.states.get(state, 0) for state in DocumentState},
        waiting={level: live.waiting.get(level, 0) for level in range(last + 1)} | dict(live.waiting),
        oldest_wait=max(live.oldest_waits.values(), default=None),
        customers=board.customers,
        per_second=live.per_second,
        waits=_waits(course.waits()),
        overdue=schemas.Overdue(
            after=policy.turns.overdue_after,
            every=policy.turns.overdue_every,
            levels=list(board.overdue),
            uses=board.overdue_uses,
        ),
        quiet=_group(board.quiet, course.waits(OVER, lambda level: level < last)),
        busy=_group(board.busy, course.waits(OVER, lambda level: level >= last)),
        last_level=last,
        busiest=[_busiest(each, board, shares) for each in live.busiest],
        takers=[
            schemas.Taker(customer=name, received=part, due=board.due.get(name))
            for name, part in shares.most(live.at, TAKERS)
        ],
        workers=[_worker(each) for each in live.at_work],
        course=_course(course.points(since)),
    )


def _waits(found: Percentiles | None) -> schemas.Waits | None:
    return None if found is None else schemas.Waits(**found._asdict())


def _group(group: Group, waits: Percentiles | None) -> schemas.Group:
    return schemas.Group(customers=group.customers, waiting=group.waiting, waits=_waits(waits))


def _busiest(found: Busiest, board: Board, shares: Shares) -> schemas.Busiest:
    customer = found.customer
    return schemas.Busiest(
        customer=customer.name,
        display_name=customer.settings.display_name,
        level=found.level,
        waiting=customer.waiting,
        running=customer.running,
        paused=customer.settings.paused,
        lines={line.level: line.waiting for line in customer.lines},
        share=schemas.Share(received=shares.of(customer.name, board.live.at), due=board.due.get(customer.name)),
    )


def _worker(found: AtWork) -> schemas.AtWork:
    report = found.worker.report
    hands = [
        schemas.InHand(
            id=each.id,
            name=each.given.name,
            customer=each.customer,
            level=each.level,
            started_at=each.work_began_at,
            done=None if progress is None or not progress.total else min(1.0, progress.done / progress.total),
        )
        for each in found.documents[:HANDS]
        for progress in (report.progress.get(each.id),)
    ]
    return schemas.AtWork(
        name=report.name,
        host=report.host,
        slots=report.slots,
        busy=report.busy,
        processor=report.processor,
        started_at=report.started_at,
        seen_at=found.worker.seen_at,
        stopping=report.stopping,
        documents=hands,
        claimed_ahead=found.claimed_ahead,
    )


def _course(points: list[Point]) -> schemas.Course:
    """By column: a name is written once, not once a point."""
    waits = [point.waits for point in points]
    return schemas.Course(
        at=[point.at for point in points],
        waiting=[point.waiting for point in points],
        running=[point.running for point in points],
        per_second=[round(point.per_second, 2) for point in points],
        customers=[point.customers for point in points],
        failed=[point.failed for point in points],
        overdue_uses=[point.overdue_uses for point in points],
        p50=[None if each is None else each.p50 for each in waits],
        p95=[None if each is None else each.p95 for each in waits],
        p99=[None if each is None else each.p99 for each in waits],
    )

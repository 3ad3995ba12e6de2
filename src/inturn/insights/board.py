"""Everything that an overview shows of this moment, in one reading."""

from collections.abc import Iterator
from typing import Final

from inturn.insights.reader import Insights
from inturn.insights.views import Board, Group
from inturn.model import EXPEDITED
from inturn.policy import Order
from inturn.store import LineStanding, Standings

SHOWN: Final = 25
"""Customers of a board, those with the most waiting."""


def board(insights: Insights, now: int) -> Board:
    """The queue at this moment, as one screen shows it."""
    live = insights.live(now, most=SHOWN)
    standings, version = insights.standings(now), insights.policy()
    lines = standings.lines
    weights = {line.customer: line.weight for line in lines}
    everybody = sum(weights.values())
    last = len(version.policy.priority.thresholds) + 1
    return Board(
        live=live,
        policy=version,
        customers=len(weights),
        due={name: weight / everybody for name, weight in weights.items()},
        overdue=tuple(sorted({line.level for line in _overdue(standings, now)})),
        overdue_uses=sum(standings.overdue_uses),
        last_level=last,
        quiet=_group([line for line in lines if line.level < last]),
        busy=_group([line for line in lines if line.level >= last]),
    )


def _group(lines: list[LineStanding]) -> Group:
    return Group(len({line.customer for line in lines}), sum(line.waiting for line in lines))


def _overdue(standings: Standings, now: int) -> Iterator[LineStanding]:
    """Open lines whose heads have waited so long that the overdue slot serves their level."""
    policy = standings.policy
    for line in standings.lines if policy.order is Order.FAIR else ():
        if line.level != EXPEDITED and now - line.head.ready_at >= policy.overdue_after:
            yield line

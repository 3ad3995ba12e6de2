"""The groups of a lane as the SQL stores keep them, of which a claim reads those that it can reach."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from inturn.policy.groups import UNGROUPED, GroupName, Groups
from inturn.policy.scheduler import Head
from inturn.stores.sql.lanes import TableLane
from inturn.stores.sql.queries import Queries
from inturn.stores.sql.rows import NEVER, Row

GROUP_COLUMNS: Final = (
    "customer", "level", "number", "turn", "stamp", "waiting", "head_seq", "head_ready_at", "head_cost", "scan_from",
)  # fmt: skip
GROUP_KEY: Final = GROUP_COLUMNS[:3]
NOTHING_LOADED: Final = (-1, -1)
ALL_LOADED: Final = (NEVER + 1, 0)


@dataclass(slots=True, eq=False)
class TableGroups(Groups[TableLane]):
    """The groups of a lane that has rows of groups. It holds all up to a turn, and up to a seq of the head."""

    queries: Queries | None = None
    lane: TableLane | None = None
    rows_at_once: int = 1
    loaded_until_turn: tuple[int, int] = NOTHING_LOADED
    loaded_until_seq: tuple[int, int] = NOTHING_LOADED
    looked_up: set[GroupName] = field(default_factory=set)
    """Groups that were asked for by their number, whether or not there was one."""

    def find(self, name: GroupName) -> TableLane | None:
        if name not in self.members and name not in self.looked_up:
            self.look_up([name])
        return self.members.get(name)

    def look_up(self, names: Sequence[GroupName]) -> None:
        """Read groups by their numbers."""
        queries, lane = self._source()
        wanted = [(lane.owner, lane.track, name or 0) for name in names]
        self.add_rows(names, queries.fetch_many("groups_of", GROUP_KEY, wanted))

    def add_rows(self, names: Sequence[GroupName], rows: Sequence[Row]) -> None:
        """Add the rows of groups that were asked for by their numbers."""
        self.looked_up.update(names)
        for row in rows:
            self._add(row)

    def lowest(self) -> TableLane | None:
        while self.loaded_until_turn is not ALL_LOADED:
            group = Groups.lowest(self)
            if group is not None and (group.turn, group.stamp) <= self.loaded_until_turn:
                return group
            rows = self._read("lowest_groups", *self.loaded_until_turn)
            self.loaded_until_turn = (rows[-1][3], rows[-1][4]) if len(rows) == self.rows_at_once else ALL_LOADED
        return Groups.lowest(self)

    def oldest(self) -> TableLane | None:
        while self.loaded_until_seq is not ALL_LOADED:
            group = Groups.oldest(self)
            if group is not None and group.head is not None and group.head.seq <= self.loaded_until_seq[0]:
                return group
            rows = self._read("oldest_groups", *self.loaded_until_seq)
            self.loaded_until_seq = (rows[-1][6], 0) if len(rows) == self.rows_at_once else ALL_LOADED
        return Groups.oldest(self)

    def load_all(self) -> None:
        """Read every group that has documents."""
        queries, lane = self._source()
        for row in queries.fetch_all("groups_of_lane", customer=lane.owner, level=lane.track):
            self._add(row)
        self.loaded_until_turn = self.loaded_until_seq = ALL_LOADED

    def _read(self, query: str, after: int, after_tie: int) -> list[Row]:
        queries, lane = self._source()
        rows = queries.fetch_all(
            query,
            customer=lane.owner,
            level=lane.track,
            after=after,
            **({"after_tie": after_tie} if query == "lowest_groups" else {}),
            limit=self.rows_at_once,
        )
        for row in rows:
            self._add(row)
        return rows

    def _add(self, row: Row) -> None:
        """Add a group that was read, unless it is known: then it may have changed since."""
        _, lane = self._source()
        _, _, number, turn, stamp, waiting, *head, scan_from = row
        name = number or UNGROUPED
        if name in self.members:
            return
        group = self.members[name] = new_group(lane, number)
        group.turn, group.stamp, group.waiting, group.scan_from, group.stored_row = turn, stamp, waiting, scan_from, row
        if head[0] is not None:
            group.head = Head(*head)
            self.schedule(group)

    def _source(self) -> tuple[Queries, TableLane]:
        if self.queries is None or self.lane is None:
            raise AssertionError("groups that have rows know their lane")
        return self.queries, self.lane


def new_group(lane: TableLane, number: int) -> TableLane:
    """Make an empty group of a lane."""
    return TableLane(lane.customer, lane.level, queue=lane.queue, owner=lane.owner, group=number, parent=lane)


class GroupWrites(NamedTuple):
    """What a transaction that writes lanes changes of groups."""

    emptied: list[Row]
    """Customers and levels of lanes that have lost all of their groups. They are deleted before rows are saved."""
    saved: list[Row]
    spent: list[Row]
    """The keys of groups whose rows are deleted."""

    @classmethod
    def none(cls) -> "GroupWrites":
        return cls([], [], [])

    def add(self, lane: TableLane) -> None:
        """Add what changed of the groups of a lane."""
        groups = lane.groups
        if lane.had_groups and not isinstance(groups, TableGroups):
            self.emptied.append((lane.owner, lane.track))
        if groups is None:
            return
        for group in groups.members.values():
            row = group_row(group)
            if groups.is_spent(group):
                if group.stored_row is not None:
                    self.spent.append(row[: len(GROUP_KEY)])
            elif row != group.stored_row:
                self.saved.append(row)

    def write(self, queries: Queries) -> None:
        """Write all of it."""
        queries.execute_many("forget_groups_of_lane", GROUP_KEY[:2], self.emptied)
        queries.execute_many("save_group", GROUP_COLUMNS, self.saved)
        queries.execute_many("forget_group", GROUP_KEY, self.spent)


def group_row(group: TableLane) -> Row:
    """The row of a group."""
    head = (None, None, None)
    if group.head is not None:
        head = (group.head.seq, group.head.ready_at, float(group.head.cost))  # type: ignore[assignment]
    return (group.owner, group.track, group.group, group.turn, group.stamp, group.waiting, *head, group.scan_from)

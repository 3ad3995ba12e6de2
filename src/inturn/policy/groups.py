"""Give the groups inside a lane turns, so that one group's pile does not delay another group of the same customer.

A lane has groups once a document with a group joins it; documents without one are a group of their own. The lane itself
is scheduled as if there were none: it has one virtual time and one length, and its head is the document with the lowest
seq that waits. The groups only decide which of the lane's documents is started when the lane is taken. So a customer's
share does not depend on its groups. The overdue slot goes by the head, which groups may leave behind for longer.

Inside the lane the order is start-time fair queueing again, by `(turn, stamp)` of the groups. A group is charged as the
lane is, without its weight. A lane that becomes empty forgets its groups.
"""

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, Generic

from inturn.policy.scheduler import Head, LaneT

GroupName = str | int | None
"""What identifies a group inside its customer: its name or, in SQL stores, its number."""
UNGROUPED: Final = None
"""The group of documents without one."""


@dataclass(slots=True, eq=False)
class Groups(Generic[LaneT]):
    """The groups of one lane. A group is a lane inside the lane: it has a turn, a stamp, a length and a head."""

    virtual_turn: int = 0
    """The turn of the group that was last taken as the lowest."""
    members: dict[GroupName, LaneT] = field(default_factory=dict)
    by_turn: list[tuple[int, int, LaneT]] = field(default_factory=list)
    by_seq: list[tuple[int, int, LaneT]] = field(default_factory=list)

    def find(self, name: GroupName) -> LaneT | None:
        """Return a group that is known."""
        return self.members.get(name)

    def lowest(self) -> LaneT | None:
        """Return the group whose turn it is."""
        heap = self.by_turn
        while heap and heap[0][2].turn_entry is not heap[0]:
            heappop(heap)
        return heap[0][2] if heap else None

    def oldest(self) -> LaneT | None:
        """Return the group whose head has the lowest seq: it is the head of the lane."""
        heap = self.by_seq
        while heap and not _is_current(*heap[0]):
            heappop(heap)
        return heap[0][2] if heap else None

    def activate(self, group: LaneT, stamp: int) -> None:
        """Add a group that got its first document: at the virtual turn at the earliest."""
        group.turn, group.stamp = max(group.turn, self.virtual_turn), stamp
        self.schedule(group)

    def schedule(self, group: LaneT) -> None:
        """Add a group at its present turn to the heaps."""
        head = group.head
        if head is None:
            raise AssertionError(f"an empty group of {group.customer!r} cannot be scheduled")
        heappush(self.by_seq, (head.seq, group.stamp, group))
        self._schedule_turn(group)

    def _schedule_turn(self, group: LaneT) -> None:
        group.turn_entry, group.scheduled = (group.turn, group.stamp, group), True
        heappush(self.by_turn, group.turn_entry)
        if len(self.by_turn) + len(self.by_seq) > 4 * len(self.members) + 64:
            self._drop_stale()

    def _drop_stale(self) -> None:
        """Drop all stale heap entries at once. Otherwise they are dropped only when they come up."""
        self.by_turn = [entry for entry in self.by_turn if entry[2].turn_entry is entry]
        self.by_seq = [
            (group.head.seq, group.stamp, group)
            for group in self.members.values()
            if group.scheduled and group.head is not None
        ]
        heapify(self.by_turn)
        heapify(self.by_seq)

    def change_head(self, group: LaneT, head: Head | None) -> None:
        """Replace the head of a group; None if it is empty. An empty group keeps its turn."""
        group.head, group.turn_entry, group.scheduled = head, None, False
        if head is not None:
            self.schedule(group)

    def charge(self, group: LaneT, charge: int, stamp: int, *, advance_virtual_time: bool) -> None:
        """Charge a group for its head. The caller then gives it its next head by `change_head`."""
        if advance_virtual_time:
            self.virtual_turn = group.turn
        group.turn, group.stamp = group.turn + charge, stamp

    def correct(self, group: LaneT, difference: int, stamp: int) -> None:
        """Add to a group's charges, or refund some of them; it gets no earlier than the virtual turn by it.

        A group before the virtual turn counts as standing there, as a forgotten one does.
        """
        group.turn, group.stamp = max(self.virtual_turn, max(self.virtual_turn, group.turn) + difference), stamp
        if group.scheduled:
            self._schedule_turn(group)

    def is_spent(self, group: LaneT) -> bool:
        """Return whether a group can be forgotten without effect: empty, and not ahead of the virtual turn."""
        return group.head is None and group.turn <= self.virtual_turn

    def forget_spent(self) -> None:
        """Drop the groups that are spent."""
        for name, group in list(self.members.items()):
            if self.is_spent(group):
                del self.members[name]


def _is_current(seq: int, _stamp: int, group: LaneT) -> bool:
    return group.scheduled and group.head is not None and group.head.seq == seq

"""Record outcomes that end a step and not their document: moves to another queue, and parts.

A part's end writes a row of the lane log, `part_ended`, and locks nothing of the document that it is a part of. The
next claim looks whether any part of that document is unended (S76). Claims run one by one and see only what is
committed, so that the last part is noticed exactly once, even if two parts end at the same time.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from inturn.model import DEFAULT_QUEUE, DOCUMENT_COLUMNS, DocumentState, NewDocument, join_steps
from inturn.policy import Counter
from inturn.policy.scheduler import TRACKS, Head, track_of
from inturn.store_types import EventKind, Outcome, OutcomeKind, work_times
from inturn.stores.sql.lane_log import lane_number, move_to_queue
from inturn.stores.sql.queries import scalar
from inturn.stores.sql.submit import Submitter, search_name
from inturn.stores.sql.transitions import DocumentFacts, Transitions

PART_COLUMNS: Final = ("seq", "id", "level", "lane", "count", "part", "lower_name", "ahead", *DOCUMENT_COLUMNS)
MOVE_COLUMNS: Final = (
    "seq", "state", "queue", "lane", "level", "count", "ahead", "last_outcome", "began_at", "worked",
)  # fmt: skip


class StepRecorder:
    """Records the outcomes of one call that end a step."""

    def __init__(self, transitions: Transitions, submitter: Submitter, outcomes: Iterable[Outcome]) -> None:
        """Lock the customers of documents that are checked again, before any document is locked."""
        self._transitions = transitions
        self._submitter = submitter
        self._numbers: dict[str, int] = {}
        self._policy_number = scalar(transitions.queries, "policy_number")
        self._policy = transitions.cache.policy(transitions.queries, self._policy_number).policy
        self._counters: dict[int, Counter | None] = {}
        if self._policy.check_each_step:
            self._counters = submitter.lock_owners([outcome.id for outcome in outcomes if outcome.queue is not None])
        self._moved: list[tuple[object, ...]] = []

    def record(self, outcome: Outcome, facts: DocumentFacts) -> DocumentFacts:
        """End a step, and let the document wait in its next queue or for its parts."""
        transitions = self._transitions
        queue, is_split = outcome.queue or DEFAULT_QUEUE, outcome.kind is OutcomeKind.SPLIT
        began_at, worked = work_times(outcome, facts.started_at or 0, transitions.now)
        facts = facts._replace(began_at=began_at, worked=worked)
        transitions.end_attempt(facts, EventKind.SPLIT if is_split else EventKind.STEP_DONE, result=outcome.result)
        transitions.add_files(facts.seq, facts.step, outcome.files)
        transitions.stop(facts)
        level, count = self._check(facts.owner, 1)[0] if self._counters and not is_split else (facts.level, facts.count)
        lane = move_to_queue(facts.lane, self._number(queue), level)
        after = DocumentState.SPLIT if is_split else DocumentState.WAITING
        more = (lane, level, count, join_steps(outcome.ahead), str(outcome.kind), began_at, worked)
        self._moved.append((facts.seq, str(after), queue, *more))
        if is_split:
            transitions.record_event(EventKind.SPLIT, facts)
            self._add_parts(outcome.parts, facts)
        else:
            transitions.lane_log.requeued(facts.owner, lane, Head(facts.seq, transitions.now, facts.cost))
            transitions.record_event(EventKind.STEP_DONE, facts, json.dumps({"next": queue}))
        transitions.should_notify = True
        return facts._replace(state=after)

    def write(self) -> None:
        """Write the documents' rows; their events and lane changes are recorded already."""
        transitions = self._transitions
        transitions.queries.execute_many("move_documents", MOVE_COLUMNS, self._moved, now=transitions.now)

    def _number(self, queue: str) -> int:
        """Return the number of a queue, known or new: an outcome that is not recorded makes none."""
        if queue not in self._numbers:
            self._numbers[queue] = self._submitter.queue_number(queue)
        return self._numbers[queue]

    def _check(self, owner: int, n: int) -> list[tuple[int, int]]:
        now = self._transitions.now
        checked = self._submitter.apply_checks(owner, self._counters[owner], n, now, self._policy_number)
        self._counters[owner] = checked.counter
        return list(checked.per_document())

    def _add_parts(self, parts: Sequence[tuple[str, NewDocument]], facts: DocumentFacts) -> None:
        """Insert the parts of a document, of its customer and group."""
        ids, specs = [id_ for id_, _ in parts], self._policy.costs.apply([spec for _, spec in parts])
        checks = [(facts.level, facts.count)] * len(specs)
        if self._counters:
            checks = self._check(facts.owner, len(specs))
        group, transitions = facts.lane // TRACKS, self._transitions
        seqs = self._submitter.allocate_seqs(len(ids))
        rows: list[tuple[object, ...]] = []
        heads: dict[int, list[Head]] = {}
        for part, (id_, spec, (level, count), seq) in enumerate(zip(ids, specs, checks, seqs, strict=True), start=1):
            lane = lane_number(track_of(self._number(spec.queue), level), group)
            rows.append((seq, id_, level, lane, count, part, search_name(spec.name), spec.steps_ahead, *spec))
            if not spec.delay:
                heads.setdefault(lane, []).append(Head(seq, transitions.now, spec.cost))
            transitions.record_event(EventKind.PART_ADDED, facts._replace(id=id_, queue=spec.queue))
        more = {"customer": facts.owner, "parent": facts.id, "split_step": facts.step, "now": transitions.now}
        transitions.queries.execute_many("add_parts", PART_COLUMNS, rows, **more)
        for lane, waiting in heads.items():
            transitions.lane_log.joined(facts.owner, lane, len(waiting), waiting[0])
        for kind, times in (
            ("due", [transitions.now + spec.delay for spec in specs if spec.delay]),
            ("start_by", [spec.start_by for spec in specs if spec.start_by is not None]),
        ):
            if times:
                transitions.lane_log.deadline_set(facts.owner, kind, min(times))

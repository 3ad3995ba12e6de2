"""The steps and parts of the memory store's documents."""

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from inturn.model import DocumentState
from inturn.store_types import PartResult, StepResult
from inturn.stores.memory.rows import Row

SPLIT: Final = DocumentState.SPLIT


class Parent(NamedTuple):
    """A document that is split, and the step in which that happens."""

    id: str
    step: int


class Steps:
    """Results of the steps that documents have behind them, and the parts that documents were split into."""

    def __init__(self) -> None:
        self.results: dict[str, list[StepResult]] = {}
        """By document; those without a step behind them have no entry."""
        self.parts: dict[str, list[Row]] = {}
        """By document, of all of its splits, by seq of their submission."""
        self._unended: Tally[str] = Tally()
        self._ended_lately: dict[str, None] = {}
        """Documents of which a part has ended since `take_due`."""

    @property
    def may_be_due(self) -> bool:
        """Whether a part has ended since `take_due`."""
        return bool(self._ended_lately)

    def results_of(self, row: Row) -> tuple[StepResult, ...]:
        """Return the results of the steps that are done."""
        behind = self.results.get(row.id, ())
        if row.state is not DocumentState.DONE:
            return tuple(behind)
        return (*behind, StepResult(row.step, row.queue, row.result, tuple(sorted(row.files))))

    def parts_of(self, row: Row) -> list[Row]:
        """Return the parts of a document's last split, by number."""
        parts = self.parts.get(row.id, [])
        last = max((part.split_step or 0 for part in parts), default=0)
        return sorted((part for part in parts if part.split_step == last), key=attrgetter("part"))

    def unended_parts(self, row: Row) -> list[Row]:
        """Return the parts that have not ended, by seq."""
        parts = (part for part in self.parts.get(row.id, ()) if part.finished_at is None)
        return sorted(parts, key=attrgetter("seq"))

    def all_parts(self, row: Row) -> list[Row]:
        """Return all parts of a document, and theirs."""
        return [other for part in self.parts.get(row.id, ()) for other in (part, *self.all_parts(part))]

    def has_unended_parts(self, row: Row) -> bool:
        return self._unended[row.id] > 0

    def add_part(self, part: Row) -> None:
        """Add a part, new or restored."""
        if part.parent is not None:
            self.parts.setdefault(part.parent, []).append(part)
            self._unended[part.parent] += part.finished_at is None

    def part_ended(self, part: Row) -> None:
        if part.parent is not None:
            self._unended[part.parent] -= 1
            self._ended_lately[part.parent] = None

    def part_retried(self, part: Row) -> None:
        if part.parent is not None:
            self._unended[part.parent] += 1

    def take_due(self, documents: Mapping[str, Row]) -> list[Row]:
        """Return the SPLIT documents of which a part has ended and none is unended, by seq."""
        rows = [row for id_ in self._ended_lately if (row := documents.get(id_)) is not None]
        self._ended_lately.clear()
        due = [row for row in rows if row.state is SPLIT and not self.has_unended_parts(row)]
        return sorted(due, key=attrgetter("seq"))

    def stuck(self, documents: Mapping[str, Row]) -> list[Row]:
        """Return SPLIT documents without unended parts that no claim will look at: there are none."""
        split = (row for row in documents.values() if row.state is SPLIT and row.id not in self._ended_lately)
        return [row for row in split if not self.has_unended_parts(row)]

    def restore(self, documents: Mapping[str, Row]) -> None:
        """Find parts that ended before the snapshot was written."""
        self._ended_lately = {row.id: None for row in documents.values() if row.state is SPLIT}

    def forget(self, row: Row) -> None:
        """Forget a document that is deleted."""
        self.results.pop(row.id, None)
        if row.parent is not None and row.parent in self.parts:
            self.parts[row.parent].remove(row)
            if not self.parts[row.parent]:
                del self.parts[row.parent], self._unended[row.parent]

    def blobs(self, row: Row) -> Iterator[str]:
        """Yield the blobs of a document's content, its result and the results of its steps."""
        yield from row.blobs()
        for result in self.results.get(row.id, ()):
            yield from (file.blob for file in result.files)


def part_result(row: Row) -> PartResult:
    """Return what became of a part."""
    return PartResult(
        row.id,
        row.part or 0,
        row.spec.name,
        row.state,
        row.result if row.state is DocumentState.DONE else None,
        row.error if row.state is DocumentState.FAILED else None,
        tuple(sorted(row.files)),
    )

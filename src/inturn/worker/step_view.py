"""What a processor sees of its document's earlier steps: results, their files, and parts.

A child has no store. It asks its worker for a file when the processor looks, and reads what stands in it as far as the
processor goes: of ten thousand parts it holds only where each begins.
"""

import io
import json
import shutil
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final, overload

from inturn.model import DocumentState
from inturn.worker.open_files import DescriptorReader, read_all

SCAN_BYTES: Final = 1 << 20


class AskKind(StrEnum):
    """What a child asks its worker for."""

    RESULTS = "results"
    """The results of the steps that are done, a line of JSON each."""
    PARTS = "parts"
    """The parts, a line of JSON each."""
    STEP_FILE = "step_file"
    PART_FILE = "part_file"


Ask = Callable[[AskKind, int, str | None], int]
"""Asks for a file: its kind, the number of the step or part, and the file's name, None for a large result itself.
Returns a descriptor, which the caller closes."""


class EarlierSteps:
    """The earlier steps of one document."""

    def __init__(self, ask: Ask, folder: Path, numbers: "count[int]", step: int) -> None:
        self._ask = ask
        self._folder = folder
        self._numbers = numbers
        self._step = step
        self._open = ExitStack()

    @cached_property
    def _records(self) -> Mapping[str, Mapping[str, Any]]:
        """The last step in each queue, by queue."""
        if self._step == 0:
            return {}
        lines = read_all(self._ask(AskKind.RESULTS, 0, None)).splitlines()
        return {record["queue"]: record for record in map(json.loads, lines)}

    @cached_property
    def results(self) -> Mapping[str, Any]:
        """The results by queue."""
        return StepResults(self._records, self._load)

    def result_files(self, queue: str) -> Mapping[str, "EarlierFile"]:
        """Return the files of a step's result by name; KeyError if no step was in that queue."""
        return self.files(AskKind.STEP_FILE, self._records[queue]["step"], self._records[queue])

    @cached_property
    def parts(self) -> Sequence["PartView"]:
        """The parts of the last split."""
        if self._step == 0:
            return ()
        lines = self._open.enter_context(self._adopt(self._ask(AskKind.PARTS, 0, None)))
        return PartViews(lines, self)

    def load_part(self, record: Mapping[str, Any]) -> Any:
        """Return the result of a part."""
        return self._load_result(AskKind.PART_FILE, record["number"], record)

    def files(self, kind: AskKind, number: int, record: Mapping[str, Any]) -> Mapping[str, "EarlierFile"]:
        """Return the files of a step or part by name."""
        return {
            name: EarlierFile(name, size, media_type, self, (kind, number))
            for name, size, media_type in record["files"]
        }

    def open_file(self, kind: AskKind, number: int, name: str) -> BinaryIO:
        """Open a file of a step or part."""
        return io.BufferedReader(self._adopt(self._ask(kind, number, name)))

    def copy_file(self, kind: AskKind, number: int, name: str) -> Path:
        """Copy a file into the folder, until `close`."""
        path = self._folder / f"earlier-{next(self._numbers)}"
        self._open.callback(path.unlink, missing_ok=True)
        with self.open_file(kind, number, name) as source, path.open("wb") as copy:
            shutil.copyfileobj(source, copy)
        return path

    def close(self) -> None:
        """Close the list of parts and delete copies of files."""
        self._open.close()

    def _load(self, record: Mapping[str, Any]) -> Any:
        return self._load_result(AskKind.STEP_FILE, record["step"], record)

    def _load_result(self, kind: AskKind, number: int, record: Mapping[str, Any]) -> Any:
        text = read_all(self._ask(kind, number, None)) if record["is_in_file"] else record["result"]
        return None if text is None else json.loads(text)

    @staticmethod
    def _adopt(fd: int) -> DescriptorReader:
        """Return a reader of a descriptor that is closed with it."""
        with open(fd, "rb") as source:
            return DescriptorReader(source.fileno())


class StepResults(Mapping[str, Any]):
    """Results by queue, parsed when they are looked at."""

    def __init__(self, records: Mapping[str, Mapping[str, Any]], load: Callable[[Mapping[str, Any]], Any]) -> None:
        self._records = records
        self._load = load

    def __getitem__(self, queue: str) -> Any:
        return self._load(self._records[queue])

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, queue: object) -> bool:  # without fetching the result
        return queue in self._records


class EarlierFile:
    """Implements `StoredFile`, which describes the methods."""

    def __init__(
        self, name: str, size: int, media_type: str | None, steps: EarlierSteps, where: tuple[AskKind, int]
    ) -> None:
        self.name = name
        self.size = size
        self.media_type = media_type
        self._steps = steps
        self._where = where
        self._copy: Path | None = None

    def open(self) -> BinaryIO:
        return self._steps.open_file(*self._where, self.name)

    def path(self) -> Path:
        if self._copy is None:
            self._copy = self._steps.copy_file(*self._where, self.name)
        return self._copy


class PartView:
    """Implements `EndedPart`, which describes the properties."""

    def __init__(self, record: Mapping[str, Any], steps: EarlierSteps) -> None:
        self.number: int = record["number"]
        self.name: str = record["name"]
        self.state = DocumentState(record["state"])
        self.error: str | None = record["error"]
        self._record = record
        self._steps = steps

    @property
    def result(self) -> Any:
        return self._steps.load_part(self._record)

    @property
    def files(self) -> Mapping[str, EarlierFile]:
        return self._steps.files(AskKind.PART_FILE, self.number, self._record)


class PartViews(Sequence[PartView]):
    """The parts in an open file, a line of JSON each, in which threads may read."""

    def __init__(self, lines: DescriptorReader, steps: EarlierSteps) -> None:
        self._lines = lines
        self._steps = steps
        self._ends = array("Q", _line_ends(lines))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> PartView: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PartView]: ...
    def __getitem__(self, index: int | slice) -> PartView | Sequence[PartView]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        start = self._ends[number - 1] if number else 0
        return PartView(json.loads(self._lines.read_at(self._ends[number] - start, start)), self._steps)


def _line_ends(source: DescriptorReader) -> Iterator[int]:
    """Yield where each line ends, its newline included."""
    offset = 0
    while chunk := source.read_at(SCAN_BYTES, offset):
        at = -1
        while (at := chunk.find(b"\n", at + 1)) >= 0:
            yield offset + at + 1
        offset += len(chunk)

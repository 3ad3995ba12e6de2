"""The file of `inturn export`: JSON lines that are read into a store of any kind.

The first line is the header: format version, kind of store, time, columns and number of rows by table. One line for
each row follows, as an object under the name of its table. The last line has the SHA-256 of all lines before it.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, NamedTuple

from inturn.errors import InvalidInputError, StoreCorruptError, StoreVersionError
from inturn.stores.transfer import BATCH_ROWS, Batch, Header, QueueRecord, Row

FORMAT: Final = 1
HEADER_KEY: Final = "inturn_export"
END_KEY: Final = "end"
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Stream(NamedTuple):
    """An opened file: its header, and the rows that are still to be read."""

    header: Header
    queue: QueueRecord
    batches: Iterator[Batch]


def write_stream(file: BinaryIO, header: Header, batches: Iterable[Batch], on_progress: Callable[[int], None]) -> None:
    """Write header, rows and trailer."""
    digest = hashlib.sha256()

    def write(record: dict[str, Any]) -> None:
        line = _encode(record).encode() + b"\n"
        digest.update(line)
        file.write(line)

    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    queue = None if header.queue is None else header.queue._asdict()
    write({HEADER_KEY: {"format": FORMAT, "at": made_at, **header._asdict(), "queue": queue}})
    for table, rows in batches:
        for row in rows:
            write({table: dict(zip(header.columns[table], row, strict=True))})
        on_progress(len(rows))
    write({END_KEY: {"sha256": digest.hexdigest()}})


def read_stream(file: BinaryIO, name: str) -> Stream:
    """Read the header, and refuse a file that is no queue of this format."""
    lines = _Lines(file, name)
    record = lines.next()
    if HEADER_KEY not in record:
        raise InvalidInputError(f"{name} is no file of inturn export; give another one")
    try:
        fields = record[HEADER_KEY]
        if fields["format"] != FORMAT:
            raise StoreVersionError(
                f"{name} has format {fields['format']} and this version of Inturn reads {FORMAT};"
                f" import it with the version that wrote it"
            )
        if fields["customer"] is not None:
            raise InvalidInputError(
                f"{name} holds the data of customer {fields['customer']!r} alone, for a data request;"
                f" it is no queue and cannot be imported"
            )
        queue = QueueRecord(**fields["queue"])
        header = Header._make({**fields, "queue": queue}[field] for field in Header._fields)
    except (KeyError, TypeError) as error:
        raise lines.damaged(f"its header is not complete ({error})") from error
    return Stream(header, queue, _read_batches(lines, header))


def _read_batches(lines: "_Lines", header: Header) -> Iterator[Batch]:
    current, rows = "", list[Row]()
    while True:
        sha256 = lines.sha256
        ((table, fields),) = lines.next().items()
        if rows and (table != current or len(rows) == BATCH_ROWS):
            yield current, rows
            rows = []
        if table == END_KEY:
            break
        try:
            rows.append([fields[column] for column in header.columns[table]])
        except (KeyError, TypeError) as error:
            raise lines.damaged(f"a row does not have the columns of its table ({error})") from error
        current = table
    if fields != {"sha256": sha256}:
        raise lines.damaged("its SHA-256 is not the one in its last line")


class _Lines:
    """The lines of a file as objects with one key, and their SHA-256 so far."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._digest = hashlib.sha256()
        self._number = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def next(self) -> dict[str, Any]:
        line = self._file.readline(MAX_LINE_BYTES)
        self._number += 1
        self._digest.update(line)
        if not line.endswith(b"\n"):
            raise self.damaged("it is cut off" if len(line) < MAX_LINE_BYTES else "the line is too long")
        try:
            record = json.loads(line)
        except ValueError as error:
            raise self.damaged(f"this is no JSON ({error})") from error
        if not isinstance(record, dict) or len(record) != 1:
            raise self.damaged("this is no object with one key")
        return record

    def damaged(self, reason: str) -> StoreCorruptError:
        return StoreCorruptError(f"{self._name} is damaged in line {self._number}: {reason}; use another export")

"""G2: when the power goes, what was accepted is there, whole, and nothing is half there.

A disk that remembers what was synced. When the power goes, each write that was not is kept, lost or torn, as it
pleases the disk, and in any order. What is found afterwards must be the queue as it was after the last call that
returned, or after the one that was under way: documents, counters, lines, fences, events and all.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from inturn.clock import ManualClock
from inturn.ids import RandomIds
from inturn.model import Claim, NewDocument
from inturn.store_types import ClaimRequest, CustomerFilter, DocumentFilter, Operator, Outcome, OutcomeKind, Submission
from inturn.stores.sqlite import SqliteStore, connection
from inturn.values import seconds
from sqlite_file import direct

SOAK = os.environ.get("INTURN_SOAK") == "1"
RUNS = 400 if SOAK else 8
CUTS_PER_RUN = 50
STEPS = 40
SECTOR = 512
HOUR = seconds(3_600)


class Surface:
    """One file: what is certain to be there, and what was written since the last sync."""

    def __init__(self) -> None:
        self.certain = bytearray()
        self.written: list[tuple[int, bytes]] = []
        """Where and what."""

    def sync(self) -> None:
        for offset, data in self.written:
            _apply(self.certain, offset, data)
        self.written.clear()

    def after_a_cut(self, chance: random.Random) -> bytes:
        result = bytearray(self.certain)
        for offset, data in self.written:
            fate = chance.random()
            if fate < 0.4:
                _apply(result, offset, data)
            elif fate < 0.7:
                for at in range(0, len(data), SECTOR):
                    if chance.random() < 0.5:
                        _apply(result, offset + at, data[at : at + SECTOR])
        return bytes(result)


def _apply(file: bytearray, offset: int, data: bytes) -> None:
    if len(file) < offset + len(data):
        file.extend(bytes(offset + len(data) - len(file)))
    file[offset : offset + len(data)] = data


class Disk(apsw.VFS):
    """The machine's own files, shadowed by what a disk would have kept of them."""

    NAME = "inturn-power"

    def __init__(self, seed: int) -> None:
        super().__init__(self.NAME, "")
        self.chance = random.Random(seed)
        self.surfaces: dict[str, Surface] = {}
        self.cuts: list[tuple[int, dict[str, bytes]]] = []
        self.returned = 0
        """Calls of the store that have returned."""
        self.odds = 0.0

    def xOpen(self, name: Any, flags: list[int]) -> "DiskFile":  # noqa: N802
        return DiskFile(self, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802, FBT001
        super().xDelete(name, syncdir)
        self.surfaces.pop(Path(name).name, None)

    def may_cut(self) -> None:
        """The power goes now, or it does not."""
        if self.chance.random() < self.odds:
            result = {name: surface.after_a_cut(self.chance) for name, surface in self.surfaces.items()}
            self.cuts.append((self.returned, result))


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._surface = disk.surfaces.setdefault(Path(path).name, Surface())

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.may_cut()
        self._surface.written.append((offset, bytes(data)))
        super().xWrite(data, offset)
        self._disk.may_cut()

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.may_cut()
        self._surface.sync()
        super().xSync(flags)
        self._disk.may_cut()


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    made = Disk(request.param)
    yield made
    made.unregister()


def everything(store: SqliteStore) -> tuple[Any, ...]:
    """The queue as anybody could see it."""
    return (
        store.documents(DocumentFilter(), limit=10_000),
        store.customers(CustomerFilter(), limit=100),
        store.counts(DocumentFilter()),
        store.events(0, limit=10_000),
        store.policies(),
        store.paused(),
    )


def step(store: SqliteStore, chance: random.Random, held: list[Claim]) -> None:
    """One call."""
    what = chance.random()
    if what < 0.4:
        n = chance.choice([1, 1, 3, 20])
        documents = [NewDocument("a document", metadata={"x": "y" * chance.choice([0, 2_000])})] * n
        store.submit(Submission(chance.choice(["acme", "beta", "cruz"]), RandomIds().make(n, 0), documents))
    elif what < 0.5:
        store.change_customer("beta", {"cap": chance.choice([None, 2])}, Operator("anna", "a test"))
    else:
        outcomes = [Outcome(claim.document.id, claim.fence, OutcomeKind.DONE, result='"done"') for claim in held]
        held[:] = store.ack_and_claim(outcomes, ClaimRequest("worker", chance.choice([1, 4]), HOUR)).claimed


@pytest.mark.parametrize("disk", range(RUNS), indirect=True)
def test_a_power_cut_leaves_the_last_call_or_the_one_under_way(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WAL_CHECKPOINT_PAGES", disk.chance.choice([8, 40, 4_000]))
    clock, held = ManualClock(HOUR), list[Claim]()
    store = SqliteStore(tmp_path / "queue.db", clock, vfs=disk.NAME)
    states = [everything(store)]
    disk.odds = 0.06
    for _ in range(STEPS):
        clock.advance(seconds(1))
        step(store, disk.chance, held)
        disk.returned += 1
        states.append(everything(store))
    disk.odds = 0.0
    store.close()
    assert len(disk.cuts) >= CUTS_PER_RUN
    for number, (returned, files) in enumerate(disk.cuts[:CUTS_PER_RUN]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        sqlite_store = SqliteStore(folder / "queue.db", clock)
        with direct(sqlite_store.path) as tables:
            assert tables.execute("PRAGMA integrity_check").get == "ok"
        assert everything(sqlite_store) in states[returned : returned + 2]
        assert sqlite_store.recount(repair=False) == ()
        sqlite_store.close()

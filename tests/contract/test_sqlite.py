"""The SQLite store keeps the contract, and takes every step as the memory store does."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import settings
from steps import STEPS

from inturn.clock import Clock, ManualClock
from inturn.store import ClaimRequest, Exchanged, Outcome, Store
from inturn.stores.sqlite import SqliteStore
from inturn.stores.sqlite.book import Book
from inturn.stores.sqlite.rows import NEVER
from inturn.testing.contract import StoreContract, same_steps


class TestSqlite(StoreContract):
    def make_store(self, clock: Clock, folder: Path) -> Store:
        return SqliteStore(folder / "queue.db", clock)

    def reopen(self, path: Path, clock: Clock) -> Store:
        return SqliteStore(path, clock)


class Temporary(SqliteStore):
    """A store whose folder goes with it."""

    def __init__(self, clock: ManualClock) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="inturn-steps-")
        super().__init__(Path(self._folder.name) / "queue.db", clock)
        self._tables.connection.execute("PRAGMA synchronous = OFF")

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


class Forgetful(Temporary):
    """As if another process had claimed before every claim: the lines are read from their table each time."""

    def _fold(self, now: int = NEVER) -> Book:
        self._tables.book = None
        return super()._fold(now)


class Several(Temporary):
    """Opened three times, as by three processes: claims and outcomes come by one after another."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._others = [SqliteStore(self.path, clock) for _ in range(2)]
        self._next = 0

    def exchange(
        self, outcomes: Sequence[Outcome], request: ClaimRequest | None, *, now: int | None = None
    ) -> Exchanged:
        self._next += 1
        which = self._next % 7  # some exchange twice in a row, and so find everything as they left it
        if which < 4:
            return super().exchange(outcomes, request, now=now)
        return self._others[which % 2].exchange(outcomes, request, now=now)

    def close(self) -> None:
        for each in self._others:
            each.close()
        super().close()


TestSteps = same_steps(Temporary).TestCase
TestSteps.settings = STEPS
TestForgetfulSteps = same_steps(Forgetful).TestCase
TestForgetfulSteps.settings = settings(STEPS, max_examples=STEPS.max_examples // 3)
TestSeveralSteps = same_steps(Several).TestCase
TestSeveralSteps.settings = settings(STEPS, max_examples=STEPS.max_examples // 3)

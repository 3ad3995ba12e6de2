"""The SQLite store passes the contract suite and the state machine."""

import tempfile
from pathlib import Path

from empty_queue import empty_queue
from inturn.clock import Clock, ManualClock
from inturn.store import Store
from inturn.stores.sqlite import SqliteStore
from inturn.testing.contract import StoreContract, same_steps
from multi_client_store import MultiClientStore, open_in_processes
from state_machine_settings import state_machine_settings


class TestSqlite(StoreContract):
    def make_store(self, clock: Clock, folder: Path) -> Store:
        return SqliteStore(empty_queue(folder / "queue.db", clock), clock)

    def reopen(self, path: Path, clock: Clock) -> Store:
        return SqliteStore(path, clock)


class Temporary(SqliteStore):
    """A store that deletes its folder on close."""

    def __init__(self, clock: ManualClock) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="inturn-steps-")
        super().__init__(empty_queue(Path(self._folder.name) / "queue.db", clock), clock)

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


def several_openings(clock: ManualClock) -> MultiClientStore:
    folder = tempfile.TemporaryDirectory(prefix="inturn-steps-")
    path = empty_queue(Path(folder.name) / "queue.db", clock)
    return MultiClientStore([SqliteStore(path, clock) for _ in range(3)], folder.cleanup)


def several_processes(clock: ManualClock) -> MultiClientStore:
    folder = tempfile.TemporaryDirectory(prefix="inturn-steps-")
    path = empty_queue(Path(folder.name) / "queue.db", clock)
    return open_in_processes(str(path), clock, folder.cleanup)


TestSteps = same_steps(Temporary).TestCase
TestSteps.settings = state_machine_settings(89)
TestStepsOfSeveralOpenings = same_steps(several_openings).TestCase
TestStepsOfSeveralOpenings.settings = state_machine_settings(59)
TestStepsOfSeveralProcesses = same_steps(several_processes).TestCase
TestStepsOfSeveralProcesses.settings = state_machine_settings(29)

"""The memory store passes the contract suite; the state machine runs it against itself."""

from pathlib import Path

from inturn.clock import Clock, ManualClock
from inturn.store import Store
from inturn.stores.memory import MemoryStore
from inturn.testing.contract import StoreContract, same_steps
from state_machine_settings import state_machine_settings


class TestMemory(StoreContract):
    def make_store(self, clock: Clock, folder: Path) -> Store:
        del folder
        return MemoryStore(clock)

    def reopen(self, path: Path, clock: Clock) -> Store:
        return MemoryStore.restore(path, clock)


def make(clock: ManualClock) -> Store:
    return MemoryStore(clock)


TestSteps = same_steps(make).TestCase
TestSteps.settings = state_machine_settings(55)

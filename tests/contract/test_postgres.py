"""The PostgreSQL store keeps the contract, and takes every step as the memory store does."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from inturn.clock import Clock, ManualClock
from inturn.store import Store
from inturn.stores.postgres import PostgresStore
from inturn.testing.contract import StoreContract, same_steps
from multi_client_store import MultiClientStore, open_in_processes
from services import drop_schema, needs_postgres, new_schema
from state_machine_settings import state_machine_settings

pytestmark = needs_postgres


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def _schemas(self) -> Iterator[None]:
        self.urls: list[str] = []
        yield
        for url in self.urls:
            drop_schema(url)

    def make_store(self, clock: Clock, folder: Path) -> Store:
        del folder
        self.urls.append(new_schema())
        return PostgresStore(self.urls[-1], clock)

    def reopen(self, path: Path, clock: Clock) -> Store:
        self.urls.append(new_schema())
        return PostgresStore.restore(path, self.urls[-1], clock)


class Temporary(PostgresStore):
    """A store whose schema goes with it."""

    def __init__(self, clock: ManualClock) -> None:
        self._url = new_schema()
        super().__init__(self._url, clock)

    def close(self) -> None:
        super().close()
        drop_schema(self._url)


def several_openings(clock: ManualClock) -> MultiClientStore:
    url = new_schema()
    return MultiClientStore([PostgresStore(url, clock) for _ in range(3)], partial(drop_schema, url))


def several_processes(clock: ManualClock) -> MultiClientStore:
    url = new_schema()
    return open_in_processes(url, clock, partial(drop_schema, url))


TestSteps = same_steps(Temporary).TestCase
TestSteps.settings = state_machine_settings(6)
TestStepsOfSeveralOpenings = same_steps(several_openings).TestCase
TestStepsOfSeveralOpenings.settings = state_machine_settings(6)
TestStepsOfSeveralProcesses = same_steps(several_processes).TestCase
TestStepsOfSeveralProcesses.settings = state_machine_settings(6)

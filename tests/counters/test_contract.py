"""Counters alone keep the part of the contract that is about checks, wherever they are kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.clock import Clock
from inturn.counters import Counters, open_counters
from inturn.testing.contract import CountersContract
from services import drop_schema, fresh_redis, needs_postgres, needs_redis, new_schema


class TestMemory(CountersContract):
    def make_counters(self, clock: Clock) -> Counters:
        return open_counters("memory://", clock=clock)


class TestSqlite(CountersContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make_counters(self, clock: Clock) -> Counters:
        return open_counters(str(self.folder / "counters.db"), clock=clock)


@needs_postgres
class TestPostgres(CountersContract):
    @pytest.fixture(autouse=True)
    def _schema(self) -> Iterator[None]:
        self.url = new_schema()
        yield
        drop_schema(self.url)

    def make_counters(self, clock: Clock) -> Counters:
        return open_counters(self.url, clock=clock)


@needs_redis
class TestRedis(CountersContract):
    def make_counters(self, clock: Clock) -> Counters:
        return open_counters(fresh_redis(), clock=clock)

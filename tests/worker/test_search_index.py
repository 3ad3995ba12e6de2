"""Indexing for searches in a worker's maintenance."""

from pathlib import Path

import inturn
from inturn.clock import ManualClock
from inturn.model import SECOND, NewDocument
from inturn.worker.maintenance import Maintenance
from inturn.worker.search_index import SearchIndexer
from sqlite_file import writer_of


def test_a_backlog_is_indexed_for_a_part_of_the_time(tmp_path: Path) -> None:
    times = iter([0.0, 100.0, *[100.0 + 0.2 * n for n in range(1, 50)]])
    with inturn.open(f"{tmp_path}/queue.db") as queue:
        for _ in range(5):
            queue.submit("acme", [NewDocument("a document")] * 2_048)
        indexer = SearchIndexer(queue, lambda: next(times))
        assert indexer.index() == 2 * 2_048 - 1  # half a second: two parts of 0.2 s; seqs begin with 1
        while queue.index_documents(limit=1_000):
            pass


def test_a_round_of_maintenance_cleans_the_index(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000 * SECOND)
    with inturn.open(f"{tmp_path}/queue.db", clock=clock) as queue:
        (receipt,) = queue.submit("acme", [NewDocument("secret.txt", metadata={"name": "Müller"})])
        for _ in range(3):
            queue.submit("acme", [NewDocument("other.txt")] * 1_000)
        while queue.index_documents(limit=1_000):
            pass
        connection = writer_of(queue.store)  # type: ignore[arg-type]
        count = "SELECT count(*) FROM search_term WHERE term IN ('secret', 'name:müller')"
        assert connection.execute(count).get == 2
        queue.cancel(receipt.id, inturn.Operator("anna", "private"))
        clock.advance(60 * SECOND)
        Maintenance(queue, keep=SECOND, clock=clock).run_round(force=True)
        assert connection.execute(count).get == 0
        assert connection.execute("SELECT count(*) FROM search_term WHERE term = 'other'").get == 1

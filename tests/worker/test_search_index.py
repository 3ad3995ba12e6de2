"""Indexing for searches in a worker's maintenance."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import inturn
from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.search_query import SearchQuery
from inturn.stores.sql.search import ChunkIndex
from inturn.values import SECOND
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


def test_no_transaction_of_the_index_is_long(tmp_path: Path) -> None:
    """Claims wait for the write lock, whatever words and metadata the documents have."""
    with inturn.open(f"{tmp_path}/queue.db") as queue:
        for at in range(0, 2_500, 500):
            metadata = [{f"k{n}": f"v{document}-{n}" for n in range(30)} for document in range(at, at + 500)]
            queue.submit("acme", [NewDocument("a.txt", metadata=values) for values in metadata])
        connection = queue.store._queries.connection  # type: ignore[attr-defined]  # noqa: SLF001 - its own transactions are counted
        totals = [connection.total_changes()]
        connection.set_commit_hook(lambda: totals.append(connection.total_changes()) or False)
        while queue.index_documents(limit=1_000):
            pass
        connection.set_commit_hook(None)
        assert totals[-1] - totals[0] > 50_000
        assert max(after - before for before, after in pairwise(totals)) <= 4_000
        assert [document.spec.metadata["k7"] for document in queue.search("k7:v1234-7").documents] == ["v1234-7"]


def test_indexing_goes_on_where_a_killed_process_stopped(tmp_path: Path) -> None:
    with inturn.open(f"{tmp_path}/queue.db") as queue:
        for at in range(0, 2_500, 500):
            queue.submit(
                "acme", [NewDocument(f"file {n}.txt", metadata={"n": f"no-{n:04}"}) for n in range(at, at + 500)]
            )
        (gone,) = queue.submit("beta", [NewDocument("secret.txt")])
        connection = queue.store._queries.connection  # type: ignore[attr-defined]  # noqa: SLF001 - its own transactions are counted
        commits = iter([False, True])
        connection.set_commit_hook(lambda: next(commits))
        with pytest.raises(inturn.errors.InturnError):
            queue.index_documents(limit=1_000)
        connection.set_commit_hook(None)
        assert connection.execute("SELECT count(*) FROM search_term").get > 1_000
        assert connection.execute("SELECT count(*) FROM search_chunk").get == 0
        assert [document.spec.name for document in queue.search("n:no-0017").documents] == ["file 17.txt"]
        queue.purge("beta", inturn.Operator("anna", "private"))
        assert gone.id
        while queue.index_documents(limit=1_000):
            pass
        assert [document.spec.name for document in queue.search("n:no-2003").documents] == ["file 2003.txt"]
        assert connection.execute("SELECT count(*) FROM search_term WHERE term = 'secret'").get == 0


def test_documents_that_go_while_they_are_indexed_leave_no_words(tmp_path: Path) -> None:
    with inturn.open(f"{tmp_path}/queue.db") as queue, inturn.open(f"{tmp_path}/queue.db") as other:
        queue.submit("beta", [NewDocument("secret.txt")])
        for _ in range(3):
            queue.submit("acme", [NewDocument("other.txt")] * 1_000)
        purged: list[int] = []
        reads = queue.store.read  # type: ignore[attr-defined]

        def read_and_purge(work: Callable[[Any], Any]) -> Any:
            answer = reads(work)
            if isinstance(answer, ChunkIndex) and not purged:
                purged.append(other.purge("beta", inturn.Operator("anna", "private")).documents)
            return answer

        queue.store.read = read_and_purge  # type: ignore[attr-defined]
        while queue.index_documents(limit=1_000):
            pass
        assert purged == [1]
        words = other.store._queries.connection.execute("SELECT count(*) FROM search_term WHERE term = 'secret'")  # type: ignore[attr-defined]  # noqa: SLF001 - its own transactions are counted
        assert words.get == 0


def test_a_purge_leaves_no_word_of_the_customer_and_reads_no_other_documents(tmp_path: Path) -> None:
    with inturn.open(f"{tmp_path}/queue.db") as queue:
        for n in range(20):
            queue.submit("acme", [NewDocument(f"other {n}.txt")] * 999)
            queue.submit("beta", [NewDocument(f"secret {n}.txt", batch="secret batch", metadata={"name": "Müller"})])
        while queue.index_documents(limit=1_000):
            pass
        connection = queue.store._queries.connection  # type: ignore[attr-defined]  # noqa: SLF001 - its own transactions are counted
        words = (
            "SELECT count(*) FROM search_term WHERE term IN ('secret', 'name:müller', 'müller') OR term LIKE '_secret%'"
        )
        assert connection.execute(words).get == 4 * 9
        read = []
        connection.set_exec_trace(lambda _, statement, __: read.append("metadata" in statement) or True)
        queue.purge("beta", inturn.Operator("anna", "private"))
        connection.set_exec_trace(None)
        assert connection.execute(words).get == 0
        assert not any(read)
        assert queue.clean_index(limit=4) == 4
        assert queue.clean_index(limit=100) == 5
        assert queue.clean_index(limit=100) == 0
        assert queue.search("other 19").is_complete is False
        assert queue.search("secret").documents == ()


def test_documents_with_the_most_metadata_do_not_make_searches_slow() -> None:
    """A search reads thousands of documents that are not indexed yet, in the thread of a request."""
    values = " ".join(f"w{n}" for n in range(2_000))
    query = SearchQuery.parse("w1999")
    assert not query.matches("a.txt", {"text": values})
    assert SearchQuery.parse("w30").matches("a.txt", {"text": values})
    assert not SearchQuery.parse("k65:").matches("", {f"k{n}": 1 for n in range(1_000)})
    assert SearchQuery.parse("k63:1").matches("", {f"k{n}": 1 for n in range(1_000)})
    repeated = " ".join(["a"] * 1_500 + ["last"])
    assert not SearchQuery.parse("last").matches("", {"text": repeated})

"""The history of a file: several processes that fold, and one that is interrupted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.policy.history import HistorySpan, sum_figures
from inturn.store import Store
from inturn.store_history import FoldResult, HistoryScope
from inturn.store_types import Submission
from inturn.stores.sql import history
from inturn.stores.sqlite import SqliteStore


def submitted(store: Store) -> int:
    rows = store.history.rows(HistorySpan.MINUTE, HistoryScope.QUEUE, 0, 2**62)
    return sum_figures(row.figures for row in rows).submitted


def submit(store: Store, n: int) -> None:
    store.submit(Submission("acme", RandomIds().make(n, 0), [NewDocument("a document")] * n))


@pytest.fixture
def open_twice(tmp_path: Path) -> Callable[[], tuple[Store, Store]]:
    return lambda: (SqliteStore(tmp_path / "queue.db"), SqliteStore(tmp_path / "queue.db"))


def test_of_two_folds_of_the_same_events_one_counts(
    open_twice: Callable[[], tuple[Store, Store]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_twice()
    submit(one, 3)
    write, results = one.write, []

    def let_the_other_fold_and_write(work: Callable[[Any], Any]) -> Any:
        results.append(other.history.fold(limit=10))
        return write(work)

    monkeypatch.setattr(one, "write", let_the_other_fold_and_write)  # all that is folded has been read before
    assert one.history.fold(limit=10) == FoldResult(0, is_complete=True)
    assert results == [FoldResult(1, is_complete=True)]
    assert submitted(one) == 3
    one.close()
    other.close()


def test_an_interrupted_fold_changes_nothing_and_the_next_counts_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "queue.db")
    submit(store, 3)
    with monkeypatch.context() as broken:

        def end(*_: Any) -> None:
            raise KeyboardInterrupt

        broken.setattr(history.Batch, "apply", end)
        with pytest.raises(KeyboardInterrupt):
            store.history.fold(limit=10)
    assert (store.history.cursor().event, submitted(store)) == (0, 0)
    store.close()
    reopened = SqliteStore(tmp_path / "queue.db")
    assert reopened.history.fold(limit=10).events == 1
    assert submitted(reopened) == 3
    reopened.close()

"""Only the queue's own modules, the stores and the contract suite use a store; all other code uses a `Queue`."""

import ast
from collections.abc import Iterator
from pathlib import Path

from .conftest import ROOT

PACKAGE = ROOT / "src" / "inturn"
STORE_USERS = ("stores/", "testing/", "queue.py", "queue_admin.py", "queue_reader.py", "counters.py")


def store_uses(source: str) -> Iterator[int]:
    """Yield the lines that name the type `Store`, or reach through an attribute `store` to the store behind it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "inturn.store":
            yield from (alias.lineno for alias in node.names if alias.name == "Store")
        elif isinstance(node, ast.Attribute):
            owner = node.value
            if isinstance(owner, ast.Attribute) and owner.attr == "store":
                yield node.lineno
            elif node.attr == "store" and isinstance(owner, ast.Name | ast.Attribute):
                name = owner.id if isinstance(owner, ast.Name) else owner.attr
                if name.strip("_") == "queue":
                    yield node.lineno


def checked_files() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.relative_to(PACKAGE).as_posix().startswith(STORE_USERS):
            yield path
    yield from sorted((ROOT / "examples").rglob("*.py"))


def test_no_code_reaches_through_a_queue_to_its_store() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in checked_files()
        for line in sorted(set(store_uses(path.read_text(encoding="utf-8"))))
    ]
    assert places == []


def test_a_reach_through_is_noticed() -> None:
    assert list(store_uses("queue.store.sweep()")) != []
    assert list(store_uses("store = self._queue.store")) != []
    assert list(store_uses("Insights(session.queue.store)")) != []
    assert list(store_uses("from inturn.store import Event, Store")) != []
    assert list(store_uses("open_store(settings.store); queue.sweep(); from inturn.store import Event")) == []

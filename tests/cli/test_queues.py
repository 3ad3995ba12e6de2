"""`inturn queues`, and `--queue` of other commands."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inturn = Callable[..., Any]


def test_queues_are_made_listed_and_changed(inturn_here: Inturn) -> None:
    inturn_here("submit", "--customer", "acme", "--queue", "ocr", "--name", "a scan")
    inturn_here("queues", "set", "export", "--description", "hands results back", "--weight", "2", "--by", "anna")
    records = inturn_here("queues", "--json").records
    assert [(record["queue"], record["waiting"], record["weight"]) for record in records] == [
        ("default", 0, 1.0), ("ocr", 1, 1.0), ("export", 0, 2.0),
    ]  # fmt: skip
    assert "hands results back" in inturn_here("queues").stdout


def test_a_queue_is_made_without_options(inturn_here: Inturn) -> None:
    inturn_here("migrate")
    assert inturn_here("queues", "set", "ocr").returncode == 0
    assert [record["queue"] for record in inturn_here("queues", "--json").records] == ["default", "ocr"]


def test_a_queue_is_paused_and_resumed(inturn_here: Inturn) -> None:
    inturn_here("submit", "--customer", "acme", "--queue", "ocr", "--name", "a scan")
    assert inturn_here("queues", "pause", "ocr", "--json").records == [{"queue": "ocr", "paused": True}]
    assert inturn_here("queues", "--json").records[1]["paused"] is True
    assert "ocr" in inturn_here("queues", "resume", "ocr").stdout
    assert inturn_here("queues", "--json").records[1]["paused"] is False


def test_documents_are_filtered_by_queue(inturn_here: Inturn) -> None:
    for queue in ("default", "ocr", "ocr"):
        inturn_here("submit", "--customer", "acme", "--queue", queue, "--name", f"for {queue}")
    assert [record["queue"] for record in inturn_here("documents", "--queue", "ocr", "--json").records] == ["ocr"] * 2
    assert "Queue" in inturn_here("documents").stdout
    assert "Queue" not in inturn_here("documents", "--queue", "default").stdout
    inturn_here("cancel", "--queue", "ocr", "--yes")
    assert [record["state"] for record in inturn_here("documents", "--json").records] == ["cancelled"] * 2 + ["waiting"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("queues", "pause", "nowhere"), "there is no queue 'nowhere'"),
        (("queues", "pause", "nowhere"), "inturn queues set nowhere"),
        (("manual", "take", "nowhere"), "inturn queues set nowhere"),
        (("queues", "set", "default"), "nothing to change"),
        (("queues", "set", "ocr", "--form", "form.json"), "give --manual with --form"),
        (("queues", "set", "ocr", "--no-manual", "--form", "form.json"), "give --manual with --form"),
        (("queues", "set", "ocr", "--weight", "0"), "weight must be a number"),
        (("submit", "--customer", "acme", "--queue", "a b", "--name", "x"), "a queue's name has"),
    ],
)
def test_bad_input_is_refused_with_words(
    inturn_here: Inturn, tmp_path: Path, command: tuple[str, ...], message: str
) -> None:
    inturn_here("migrate")
    (tmp_path / "form.json").write_text('[{"name": "total"}]')
    assert message in " ".join(inturn_here(*command).stderr.split())

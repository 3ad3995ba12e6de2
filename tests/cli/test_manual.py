"""`inturn manual`: documents that people take; `inturn queues set` for queues that they serve, and for limits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inturn = Callable[..., Any]
FORM = [
    {"name": "total", "label": "Total", "kind": "number", "required": True},
    {"name": "kind", "kind": "choice", "options": ["invoice", "letter"]},
]


@pytest.fixture
def form(inturn_here: Inturn, tmp_path: Path) -> Path:
    """A queue with a form, and a document in it."""
    (tmp_path / "form.json").write_text(json.dumps(FORM))
    inturn_here("queues", "set", "check", "--manual", "--form", "form.json", "--by", "anna")
    inturn_here("queues", "set", "export", "--description", "hands results back")
    inturn_here("submit", "--customer", "acme", "--name", "a", "--step", "check", "--step", "export")
    return tmp_path / "form.json"


def take(inturn_here: Inturn, by: str = "anna") -> dict[str, Any]:
    taken: dict[str, Any] = inturn_here("manual", "take", "check", "--by", by, "--json").records[0]["taken"]
    return taken


def test_queues_have_limits_and_are_served_by_people(inturn_here: Inturn) -> None:
    inturn_here("migrate")
    assert "Rate limit" not in inturn_here("queues").stdout
    inturn_here("queues", "set", "ocr", "--cap", "20", "--rate", "100/1m", "--manual")
    record = inturn_here("queues", "--json").records[1]
    assert (record["cap"], record["rate"], record["manual"], record["form"]) == (20, [100, 60_000_000], True, None)
    table = inturn_here("queues").stdout
    assert "100/60 s" in table
    assert "By hand" in table
    inturn_here("queues", "set", "ocr", "--max-running", "none", "--rate", "none", "--no-manual")
    record = inturn_here("queues", "--json").records[1]
    assert (record["cap"], record["rate"], record["manual"]) == (None, None, False)


@pytest.mark.usefixtures("form")
def test_form_is_shown_and_removed(inturn_here: Inturn) -> None:
    assert [field["name"] for field in inturn_here("queues", "--json").records[1]["form"]] == ["total", "kind"]
    inturn_here("queues", "set", "check", "--form", "none")
    assert inturn_here("queues", "--json").records[1]["form"] is None


@pytest.mark.usefixtures("form")
def test_document_is_taken_and_finished(inturn_here: Inturn, tmp_path: Path) -> None:
    (waiting,) = inturn_here("manual", "list", "check", "--json").records
    assert (waiting["state"], waiting["place"]) == ("waiting", 0)
    shown = inturn_here("manual", "take", "check", "--by", "anna").stdout
    assert waiting["id"] in shown
    assert "Total: total=number*; kind=invoice|letter" in shown
    assert "person:anna" in inturn_here("manual", "list", "check").stdout
    (tmp_path / "wrong.json").write_text('{"total": "much"}')
    refused = inturn_here("manual", "finish", waiting["id"], "wrong.json", "--by", "anna")
    assert (refused.returncode, "total: it must be a number" in refused.stderr) == (2, True)
    (tmp_path / "right.json").write_text('{"total": 7}')
    stranger = inturn_here("manual", "finish", waiting["id"], "right.json", "--by", "bert")
    assert (stranger.returncode, "is not reserved for bert" in stranger.stderr) == (1, True)
    finished = inturn_here("manual", "finish", waiting["id"], "right.json", "--by", "anna").stdout
    assert "waiting, queue export" in finished
    assert json.loads(inturn_here("result", waiting["id"], "--all").stdout)[0]["result"] == {"total": 7}


@pytest.mark.usefixtures("form")
def test_document_is_released_extended_and_rejected(inturn_here: Inturn) -> None:
    first = take(inturn_here)
    extended = inturn_here("manual", "extend", first["id"], "--lease", "4h", "--by", "anna", "--json").records[0]
    assert extended["lease_until"] > first["lease_until"]
    assert "reserved until" in inturn_here("manual", "extend", first["id"], "--by", "anna").stdout
    released = inturn_here("manual", "release", first["id"], "--by", "anna", "--json").records[0]
    assert (released["state"], released["attempt"]) == ("waiting", 0)
    second = take(inturn_here, by="bert")
    stale = inturn_here("manual", "finish", first["id"], "--fence", str(first["fence"]), "--json")
    assert (stale.returncode, json.loads(stale.stderr)["error"]) == (1, "stale_fence")
    rejected = inturn_here(
        "manual",
        "reject",
        second["id"],
        "--reason",
        "no invoice",
        "--fence",
        str(second["fence"]),
        "--by",
        "bert",
        "--json",
    ).records[0]
    assert (rejected["state"], rejected["error"]) == ("failed", "no invoice")


def test_nothing_to_take(inturn_here: Inturn) -> None:
    inturn_here("queues", "set", "check", "--manual")
    assert inturn_here("manual", "take", "check", "--json").records == [{"taken": None, "waiting": 0}]
    assert "No document is waiting" in inturn_here("manual", "take", "check").stdout
    assert "No document is waiting" in inturn_here("manual", "list", "check").stdout
    inturn_here("submit", "--customer", "acme", "--name", "a", "--queue", "check")
    inturn_here("queues", "pause", "check")
    assert "1 document in the queue check is on hold" in inturn_here("manual", "take", "check").stdout


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("manual", "take", "export"), "people do not serve the queue export"),
        (("manual", "take", "nowhere"), "there is no queue 'nowhere'"),
        (("manual", "take", "check", "--lease", "soon"), "--lease takes a time"),
        (("queues", "set", "check", "--form", "missing.json"), "missing.json"),
        (("queues", "set", "check", "--form", "bad.json"), "a choice needs options"),
        (("queues", "set", "check", "--form", "binary.json"), "a form must be JSON in UTF-8"),
        (("queues", "set", "check", "--cap", "many"), "a whole number such as 5, or none"),
        (("queues", "set", "check", "--rate", "fast"), "a rate is documents/time"),
        (("queues", "set", "check"), "--form"),
    ],
)
@pytest.mark.usefixtures("form")
def test_bad_input_is_refused_with_words(
    inturn_here: Inturn, tmp_path: Path, command: tuple[str, ...], message: str
) -> None:
    (tmp_path / "bad.json").write_text('[{"name": "kind", "kind": "choice"}]')
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    refused = inturn_here(*command)
    assert refused.returncode in {1, 2}
    assert message in " ".join(refused.stderr.split())

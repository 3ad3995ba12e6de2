"""`inturn status`, `customers`, `documents`, `why` and `config show`: what there is, and why."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inturn import open as open_queue
from inturn.cli.output import printable
from inturn.values import seconds

Inturn = Callable[..., Any]
LANGUAGES = ("en", "de", "es", "pl", "pt")


@pytest.fixture
def ids(inturn_here: Inturn) -> list[str]:
    """Four documents of acme, the last of level 2, and one of bob."""
    result = [
        inturn_here("submit", "--customer", customer, *names, "--json").records
        for customer, names in (("acme", [f"s3://box/{n}.pdf" for n in range(4)]), ("bob", ["s3://box/other.pdf"]))
    ]
    return [item["id"] for group in result for item in group]


def test_the_status_counts_by_state_and_level(inturn_here: Inturn, ids: list[str]) -> None:
    (status,) = inturn_here("status", "--json").records
    assert (status["states"], status["waiting"]) == ({"waiting": len(ids)}, {"1": 4, "2": 1})
    assert (status["customers"], status["paused"], status["policy"]) == (2, None, 1)
    shown = inturn_here("status", LANG="es_ES.UTF-8").stdout
    assert "Cola: en funcionamiento" in shown
    assert re.search(r"en espera +5", shown)


@pytest.mark.usefixtures("ids")
def test_documents_are_filtered_and_paged(inturn_here: Inturn) -> None:
    assert [record["name"] for record in inturn_here("documents", "--level", "2", "--json").records] == ["3.pdf"]
    assert [record["name"] for record in inturn_here("documents", "--text", "OTHER", "--json").records] == ["other.pdf"]
    both = inturn_here("documents", "--state", "running", "--state", "waiting", "--customer", "acme", "--json")
    assert len(both.records) == 4
    first = inturn_here("documents", "--limit", "2", "--json")
    (cursor,) = re.findall(r"--after (\S+)", first.stderr)
    rest = inturn_here("documents", "--after", cursor, "--json")
    assert rest.stderr == ""
    assert [record["name"] for record in first.records + rest.records] == [
        *("other.pdf", "3.pdf", "2.pdf", "1.pdf", "0.pdf")
    ]


@pytest.mark.usefixtures("ids")
def test_documents_are_listed_oldest_first_on_request(inturn_here: Inturn) -> None:
    first = inturn_here("documents", "--sort", "oldest", "--limit", "3", "--json")
    (cursor,) = re.findall(r"--after (\S+)", first.stderr)
    rest = inturn_here("documents", "--sort", "oldest", "--after", cursor, "--json")
    names = [record["name"] for record in first.records + rest.records]
    assert names == ["0.pdf", "1.pdf", "2.pdf", "3.pdf", "other.pdf"]


def test_why_shows_earlier_attempts_with_their_errors(inturn_here: Inturn, ids: list[str], tmp_path: Path) -> None:
    with open_queue(str(tmp_path / "inturn.db")) as queue:
        queue.fail(queue.claim("worker", 1)[0], "page 3 is torn\nline 7", retry_in=seconds(60))
    (why,) = inturn_here("why", ids[0], "--json").records
    (attempt,) = why["attempts"]
    assert (attempt["number"], attempt["ended"], attempt["worker"]) == (1, "delayed", "worker")
    assert attempt["error"] == "page 3 is torn\nline 7"
    shown = inturn_here("why", ids[0], "--lang", "de").stdout
    assert re.search(r"^Versuch +Gestartet +Ende +Ausgang +Fehler *$", shown, re.MULTILINE)
    assert re.search(r"^1 .* delayed +page 3 is torn *$", shown, re.MULTILINE)
    assert "line 7" not in shown


@pytest.mark.usefixtures("ids")
def test_customers_are_filtered(inturn_here: Inturn) -> None:
    inturn_here("pause", "bob")
    assert [record["customer"] for record in inturn_here("customers", "--json").records] == ["acme", "bob"]
    (paused,) = inturn_here("customers", "--paused", "--waiting", "--json").records
    assert (paused["customer"], paused["waiting"], paused["paused"]) == ("bob", 1, True)
    assert inturn_here("customers", "--text", "nobody", "--json").records == []
    assert "bob" in inturn_here("customers", "--after", "acme").stdout


def test_why_as_json_has_codes_only(inturn_here: Inturn, ids: list[str]) -> None:
    (why,) = inturn_here("why", ids[3], "--json", LANG="de_DE.UTF-8").records
    assert (why["level"], why["count"], why["below"], why["not_below"]) == (2, -3, -2, -4)
    assert (why["place"], why["better_levels"], why["same_level"], why["own_line"]) == (4, 4, 0, 0)
    assert (why["no_start"], why["closed_by"], why["no_place"]) == ("no_worker", [], None)


def test_why_is_told_in_every_language(inturn_here: Inturn, ids: list[str]) -> None:
    inturn_here("pause", "acme")
    reported = {language: inturn_here("why", ids[3], "--lang", language).stdout for language in LANGUAGES}
    assert "Level: 2: the customer's counter was -3" in reported["en"]
    assert "Darf starten: Zurückgehalten: der Kunde ist pausiert." in reported["de"]
    assert "Contador: Ahora -3." in reported["es"]
    assert "Start: Brak szacunku, dopóki dokument jest zablokowany." in reported["pl"]
    assert "Pode iniciar: Retido: o cliente está em pausa." in reported["pt"]
    assert len({text.count("\n") for text in reported.values()}) == 1


def test_names_and_errors_cannot_move_the_cursor_but_numbers_keep_their_spaces() -> None:
    assert printable("a\x1b[31mb\tc\nd") == "a\ufffd[31mb\ufffdc\ufffdd"
    assert printable("1\u00a0499 „Zażółć“") == "1\u00a0499 „Zażółć“"


def test_reading_makes_no_queue(inturn_here: Inturn, tmp_path: Path) -> None:
    done = inturn_here("status", "--store", "typo.db")
    assert done.returncode == 1
    assert "'typo.db'" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "code", "advice"),
    [
        (["why", "nonsense", "--store", "memory://"], 2, "UUID"),
        (["why", "018f3c5e-0000-7000-8000-000000000000", "--store", "memory://"], 1, "no document"),
        (["documents", "--after", "x", "--store", "memory://"], 2, "next"),
        (["documents", "--state", "lost", "--store", "memory://"], 2, "waiting"),
        (["documents", "--sort", "name", "--store", "memory://"], 2, "oldest"),
        (["documents", "--limit", "0", "--store", "memory://"], 2, "limit"),
        (["status", "--lang", "fr", "--store", "memory://"], 2, "en, de, es, pl, pt"),
        (["status", "--store", "gopher://x"], 2, "gopher"),
    ],
)
def test_mistakes_end_with_advice(inturn_here: Inturn, args: list[str], code: int, advice: str) -> None:
    done = inturn_here(*args)
    assert done.returncode == code
    assert advice in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_is_prefixed_in_the_readers_language_and_is_json_on_request(inturn_here: Inturn) -> None:
    assert inturn_here("why", "x", "--store", "memory://", "--lang", "pl").stderr.startswith("Błąd: an id")
    reported = json.loads(inturn_here("why", "x", "--store", "memory://", "--json").stderr)
    assert reported["error"] == "invalid_input"


def test_settings_tell_where_they_came_from(inturn_here: Inturn, tmp_path: Path) -> None:
    (tmp_path / "inturn.toml").write_text('store = "file.db"\noperator = "anna"\n')
    shown = inturn_here("config", "show", "--json", "--lang", "de", INTURN_STORE="env.db").records
    assert [(item["setting"], item["value"], item["from"].split()[0]) for item in shown[:4]] == [
        ("store", "env.db", "environment"),
        ("lang", "de", "flag"),
        ("operator", "anna", "file"),
        ("blobs", "env.db.blobs", "default"),
    ]
    assert "anna" in inturn_here("config", "show").stdout


@pytest.mark.parametrize("language", LANGUAGES)
def test_history_shows_what_happened(inturn_here: Inturn, ids: list[str], tmp_path: Path, language: str) -> None:
    assert "inturn maintenance" in inturn_here("history", "--lang", language).stdout  # says who would write it
    with open_queue(str(tmp_path / "inturn.db")) as queue:
        queue.fold_history(limit=100)
    shown = inturn_here("history", "--since", "5m", "--by", "customer", "--lang", language).stdout
    assert re.search(r"^acme$", shown, re.MULTILINE)
    assert re.search(rf" {len(ids)} .* {len(ids)} ", shown)


@pytest.mark.usefixtures("ids")
def test_history_as_json_has_a_line_for_each_step(inturn_here: Inturn, tmp_path: Path) -> None:
    with open_queue(str(tmp_path / "inturn.db")) as queue:
        queue.fold_history(limit=100)
    records = inturn_here("history", "--since", "5m", "--by", "level", "--json").records
    levels = {record["level"] for record in records if record["series"] == "level"}
    assert levels == {1, 2}
    assert sum(record["submitted"] or 0 for record in records if record["series"] == "total") == 5
    assert records[0]["submitted"] is None  # five minutes ago nothing was known
    refused = inturn_here("history", "--since", "5m", "--step", "7m")
    assert (refused.returncode, "a step is one of" in refused.stderr) == (2, True)


def test_a_search_lists_what_matches_and_says_what_it_leaves_out(inturn_here: Inturn) -> None:
    inturn_here("submit", "--customer", "acme", "--name", "invoice 0.pdf")
    inturn_here("submit", "--customer", "invoices & co", "--name", "letter.pdf", "--batch", "invoices of May")
    inturn_here("submit", "--customer", "acme", "--name", "invoice 2.pdf")
    shown = inturn_here("search", "invoice").stdout
    for words in ("invoice 0.pdf", "invoice 2.pdf", "invoices & co", "invoices of May"):
        assert words in shown
    assert "letter.pdf" not in shown
    assert "There may be more matches" in inturn_here("search", "invoice", "--limit", "1").stderr
    assert "Nothing matches receipt." in inturn_here("search", "receipt").stdout
    (record,) = inturn_here("search", "invoice", "--json").records
    assert [item["name"] for item in record["customers"]] == ["invoices & co"]
    assert record["batches"] == ["invoices of May"]

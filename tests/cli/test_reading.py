"""`inturn status`, `customers`, `documents`, `why` and `config show`: what there is, and why."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

Inturn = Callable[..., CompletedProcess[str]]
LANGUAGES = ("en", "de", "es", "pl", "pt")


def records(done: CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def ids(inturn: Inturn) -> list[str]:
    """Four documents of acme, the last of level 2, and one of bob."""
    found = [
        records(inturn("submit", "--customer", customer, *names, "--json"))
        for customer, names in (("acme", [f"a://{n}.pdf" for n in range(4)]), ("bob", ["a://other.pdf"]))
    ]
    return [each["id"] for group in found for each in group]


def test_the_status_counts_by_state_and_level(inturn: Inturn, ids: list[str]) -> None:
    (status,) = records(inturn("status", "--json"))
    assert (status["states"], status["waiting"]) == ({"waiting": len(ids)}, {"1": 4, "2": 1})
    assert (status["customers"], status["paused"], status["policy"]) == (2, None, 1)
    shown = inturn("status", LANG="es_ES.UTF-8").stdout
    assert "Cola: en marcha" in shown
    assert re.search(r"en espera +5", shown)


@pytest.mark.usefixtures("ids")
def test_documents_are_filtered_and_paged(inturn: Inturn) -> None:
    assert [each["name"] for each in records(inturn("documents", "--level", "2", "--json"))] == ["3.pdf"]
    assert [each["name"] for each in records(inturn("documents", "--text", "OTHER", "--json"))] == ["other.pdf"]
    both = inturn("documents", "--state", "running", "--state", "waiting", "--customer", "acme", "--json")
    assert len(records(both)) == 4
    first = inturn("documents", "--limit", "2", "--json")
    (cursor,) = re.findall(r"--after (\S+)", first.stderr)
    rest = inturn("documents", "--after", cursor, "--json")
    assert rest.stderr == ""
    assert [each["name"] for each in records(first) + records(rest)] == [
        *("other.pdf", "3.pdf", "2.pdf", "1.pdf", "0.pdf")
    ]


@pytest.mark.usefixtures("ids")
def test_customers_are_filtered(inturn: Inturn) -> None:
    inturn("pause", "bob")
    assert [each["customer"] for each in records(inturn("customers", "--json"))] == ["acme", "bob"]
    (paused,) = records(inturn("customers", "--paused", "--waiting", "--json"))
    assert (paused["customer"], paused["waiting"], paused["paused"]) == ("bob", 1, True)
    assert records(inturn("customers", "--text", "nobody", "--json")) == []
    assert "bob" in inturn("customers", "--after", "acme").stdout


def test_why_as_json_has_codes_only(inturn: Inturn, ids: list[str]) -> None:
    (why,) = records(inturn("why", ids[3], "--json", LANG="de_DE.UTF-8"))
    assert (why["level"], why["count"], why["below"], why["not_below"]) == (2, -3, -2, -4)
    assert (why["place"], why["better_levels"], why["same_level"], why["own_line"]) == (4, 4, 0, 0)
    assert (why["no_start"], why["closed_by"], why["no_place"]) == ("no_worker", [], None)


def test_why_is_told_in_every_language(inturn: Inturn, ids: list[str]) -> None:
    inturn("pause", "acme")
    told = {language: inturn("why", ids[3], "--lang", language).stdout for language in LANGUAGES}
    assert "Level: 2, because its check left the counter at -3" in told["en"]
    assert "Schlange: Geschlossen: der Kunde ist angehalten." in told["de"]
    assert "Contador: El contador del cliente está ahora en -3." in told["es"]
    assert "Początek: Nie wiadomo, dopóki kolejka się nie otworzy." in told["pl"]
    assert "Fila: Fechada: o cliente está em pausa." in told["pt"]
    assert len({text.count("\n") for text in told.values()}) == 1


def test_reading_makes_no_queue(inturn: Inturn, tmp_path: Path) -> None:
    done = inturn("status", "--store", "typo.db")
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
    told = json.loads(inturn_here("why", "x", "--store", "memory://", "--json").stderr)
    assert told["error"] == "invalid_input"


def test_settings_tell_where_they_came_from(inturn: Inturn, tmp_path: Path) -> None:
    (tmp_path / "inturn.toml").write_text('store = "file.db"\noperator = "anna"\n')
    shown = records(inturn("config", "show", "--json", "--lang", "de", INTURN_STORE="env.db"))
    assert [(each["setting"], each["value"]) for each in shown] == [
        ("store", "env.db"),
        ("lang", "de"),
        ("operator", "anna"),
    ]
    assert [each["from"].split()[0] for each in shown] == ["environment", "flag", "file"]
    assert "anna" in inturn("config", "show").stdout

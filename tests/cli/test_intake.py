"""`inturn check`, and what `inturn submit` refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inturn = Callable[..., Any]
BURST = [1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9]


def test_a_check_prints_one_json_object_for_each_document(inturn: Inturn) -> None:
    done = inturn("check", "acme", "--count", "25", "--at", "1700000000.5", "--store", "q.db", "--json")
    assert done.stdout.splitlines()[0] == '{"customer": "acme", "count": 0, "level": 1}'
    assert done.records == [
        {"customer": "acme", "count": -number, "level": level} for number, level in enumerate(BURST)
    ]
    for at, count, level in ((1700001500.5, -25, 9), (1700003000.500001, 0, 1)):
        (next_one,) = inturn("check", "acme", "--at", str(at), "--store", "q.db", "--json").records
        assert next_one == {"customer": "acme", "count": count, "level": level}


def test_a_check_for_people_is_a_table_in_their_language(inturn: Inturn) -> None:
    lines = inturn("check", "acme", "--count", "2", LANG="de_DE.UTF-8").stdout.splitlines()
    assert [line.split() for line in lines] == [["Kunde", "Zähler", "Stufe"], ["acme", "0", "1"], ["acme", "-1", "1"]]


def test_a_key_makes_repeating_safe(inturn: Inturn) -> None:
    first = inturn("check", "acme", "--key", "k", "--json").stdout
    assert inturn("check", "acme", "--key", "k", "--json").stdout == first
    conflict = inturn("check", "acme", "--key", "k", "--count", "2")
    assert conflict.returncode == 1
    assert "use a new key" in conflict.stderr


def test_a_document_may_have_a_name_alone(inturn: Inturn) -> None:
    (receipt,) = inturn("submit", "--customer", "acme", "--name", "by hand", "--key", "k", "--json").records
    assert inturn("submit", "--customer", "acme", "--name", "by hand", "--key", "k", "--json").records == [receipt]
    assert "by hand" in inturn("submit", "--customer", "acme", "--name", "by hand").stdout


@pytest.mark.parametrize(
    ("args", "advice"),
    [
        (["check", "acme", "--count", "0"], "from 1 to"),
        (["check", "acme", "--at", "nan"], "finite"),
        (["check", "acme", "--at", "-5"], "0 or more"),
        (["check", ""], "1 to 255"),
        (["submit", "--customer", "acme"], "name files"),
        (["submit", "--customer", "acme", "missing.pdf"], "there is no file 'missing.pdf'; give --uri"),
        (["submit", "--customer", "acme", "*.none"], "no file matches"),
        (["submit", "--customer", "acme", "."], "nothing to submit: '.' has no files"),
        (["search", " "], "nothing to search for"),
        (["submit", "--customer", "acme", "/dev/null"], "a device or a pipe, not a file"),
        (["submit", "--customer", "acme", "a://b", "a://c", "--name", "n"], "single"),
        (["submit", "--customer", "acme", "--name", "n", "--metadata", "{"], "JSON"),
        (["submit", "--customer", "acme", "--name", "n", "--metadata", "[]"], "object"),
        (["submit", "--customer", "acme", "--name", "n", "--metadata", "[" * 5_000 + "]" * 5_000], "must be JSON"),
        (["submit", "a://b"], "--customer"),
    ],
)
def test_bad_input_ends_with_2_and_advice(inturn_here: Inturn, args: list[str], advice: str) -> None:
    done = inturn_here(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert advice in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["status", "--bogus"], "No such option: --bogus"),
        (["submit", "a.txt"], "Missing option '--customer'."),
        (["check", "acme", "--count", "x"], "Invalid value for '--count'"),
    ],
)
def test_a_wrong_call_is_an_object_too_with_json(inturn_here: Inturn, args: list[str], message: str) -> None:
    done = inturn_here(*args, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    error = json.loads(done.stderr)
    assert error["error"] == "invalid_input"
    assert error["message"].startswith(message)


def test_a_mistyped_folder_of_the_queue_is_not_made(inturn_here: Inturn, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    done = inturn_here("submit", "--customer", "acme", "a.txt", "--store", "nowhere/x.db")
    assert done.returncode == 1
    assert "there is no folder nowhere for the queue" in done.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "args",
    [
        ["export", "--live", "--out", "a.txt/x.jsonl"],
        ["simulate", "--replay", "--csv", "history.csv", "--export", "missing/x.csv"],
    ],
)
def test_a_path_that_cannot_be_written_is_no_mistake_of_ours(
    inturn_here: Inturn, tmp_path: Path, args: list[str]
) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "history.csv").write_text("customer,arrived,service\nacme,0,5\nacme,0,5\n")
    assert inturn_here("submit", "--customer", "acme", "a.txt").returncode == 0
    done = inturn_here(*args)
    assert done.returncode == 1
    assert f"{args[-1].partition('/')[0]}/" in done.stderr
    assert "cannot be read or written" in done.stderr
    assert "report this" not in done.stderr


def test_doctor_says_that_the_blobs_are_a_file(inturn_here: Inturn, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    assert inturn_here("submit", "--customer", "acme", "a.txt").returncode == 0
    done = inturn_here("doctor", "--blobs", "a.txt")
    assert done.returncode == 1
    assert "Blobs: cannot use the blob folder" in done.stdout
    assert "something on the path is a file" in done.stdout
    assert "name it with --blobs" in done.stdout
    assert "Workers: " in done.stdout  # the rest is checked too


def test_a_question_without_a_terminal_counts_in_words(inturn_here: Inturn) -> None:
    for name in ("a", "b"):
        assert inturn_here("submit", "--customer", name, "--name", "n").returncode == 0
    assert "before it changes 1 document, and" in inturn_here("cancel", "--customer", "a").stderr
    assert "before it changes 2 documents, and" in inturn_here("cancel", "--state", "waiting").stderr

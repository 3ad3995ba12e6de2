"""`inturn keys`: made, listed, rotated, revoked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import inturn
from inturn.api_keys import verify_api_key

Inturn = Callable[..., Any]


def test_a_key_is_printed_once_and_nothing_else(inturn_here: Inturn, tmp_path: Path) -> None:
    inturn_here("migrate")
    made = inturn_here("keys", "create", "--customer", "acme", "--name", "portal", "--by", "anna")
    text = made.stdout.strip()
    assert (made.returncode, made.stderr, len(text.split())) == (0, "", 1)
    with inturn.open(str(tmp_path / "inturn.db")) as queue:
        (key,) = queue.store.api_keys.all()
        assert verify_api_key(key, text)
        assert (key.customer, key.name, queue.store.audit(limit=1)[0].operator) == ("acme", "portal", ("anna", ""))
    listed = inturn_here("keys", "list", "--json").stdout
    assert key.sha256 not in listed
    assert text.split("_")[2] not in listed


def test_rotation_leaves_two_live_at_most(inturn_here: Inturn) -> None:
    first = json.loads(inturn_here("keys", "create", "--read-only", "--name", "x", "--expires", "30", "--json").stdout)
    second = json.loads(inturn_here("keys", "rotate", first["id"], "--json").stdout)
    third = json.loads(inturn_here("keys", "rotate", second["id"], "--overlap", "1", "--json").stdout)
    assert (third["replaces"], third["scope"], third["expires_at"]) == (second["id"], "read-only", None)
    result = {item["id"]: item for item in map(json.loads, inturn_here("keys", "list", "--json").stdout.splitlines())}
    assert result[first["id"]]["expires_at"] <= third["made_at"]
    hour = result[second["id"]]["expires_at"] - third["made_at"]
    assert hour == 3_600_000_000
    assert inturn_here("keys", "rotate", second["id"]).returncode == 1
    assert inturn_here("keys", "rotate", first["id"]).returncode == 1
    assert inturn_here("keys", "revoke", third["id"]).returncode == 0
    assert inturn_here("keys", "revoke", "000000000000").returncode == 1


@pytest.mark.parametrize(
    "invalid",
    [
        ["--name", "x"],
        ["--name", "x", "--operator", "--customer", "acme"],
        ["--name", "x", "--operator", "--read-only"],
        ["--name", "x", "--operator", "--expires", "soon"],
        ["--name", "", "--operator"],
    ],
)
def test_what_a_key_opens_must_be_said(inturn_here: Inturn, invalid: list[str]) -> None:
    refused = inturn_here("keys", "create", *invalid)
    assert (refused.returncode, refused.stdout) == (2, "")

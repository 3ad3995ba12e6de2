"""What a submitter gives: metadata is kept as JSON keeps it, whichever way it was looked at."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.errors import InvalidInputError
from inturn.model import NewDocument
from inturn.values import MAX_METADATA_DEPTH, MAX_METADATA_LENGTH

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=6))
def test_metadata_is_what_json_makes_of_it(metadata: dict[str, Any]) -> None:
    try:
        text = json.dumps(metadata, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        with pytest.raises(InvalidInputError, match="metadata must be JSON"):
            NewDocument("a", metadata=metadata)
        return
    stored = NewDocument("a", metadata=metadata).metadata
    assert json.dumps(dict(stored), ensure_ascii=False) == text
    metadata.clear()
    assert json.dumps(dict(stored), ensure_ascii=False) == text


def test_what_is_in_metadata_later_is_not_in_the_document() -> None:
    inner = ["a"]
    given_ = {"list": inner}
    document = NewDocument("a", metadata=given_)
    inner.append("b")
    assert document.metadata == {"list": ["a"]}


@pytest.mark.parametrize("letter", ["x", "\0", '"', "ł"])
def test_metadata_has_a_limit_as_json(letter: str) -> None:
    room = MAX_METADATA_LENGTH - len('{"a": ""}')
    most = room // len(json.dumps(letter, ensure_ascii=False)[1:-1])
    assert len(NewDocument("a", metadata={"a": letter * most}).metadata["a"]) == most
    with pytest.raises(InvalidInputError, match="metadata may have 16384 characters"):
        NewDocument("a", metadata={"a": letter * (most + 1)})


def test_names_become_text_as_json_has_it() -> None:
    assert NewDocument("a", metadata={1: "a"}).metadata == {"1": "a"}  # type: ignore[dict-item]


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize("invalid", [{1, 2}, float("nan"), b"x", object(), "\ud800", CIRCLE])
def test_what_is_no_json_is_refused(invalid: Any) -> None:
    with pytest.raises(InvalidInputError, match="metadata must be JSON"):
        NewDocument("a", metadata={"a": invalid})


def test_a_document_that_is_changed_is_checked_again() -> None:
    document = NewDocument("a", metadata={"n": 1}, cost=2.0)
    assert document._replace(name="b") == NewDocument("b", metadata={"n": 1}, cost=2.0)
    for bad in ({"name": ""}, {"cost": -1.0}, {"metadata": {1: object()}}, {"max_attempts": 0}):
        with pytest.raises(InvalidInputError):
            document._replace(**bad)


def test_metadata_is_held_as_compact_json_text() -> None:
    metadata = {"a": [1, 2.5, None, {"b": 'ł"'}], "c": True}
    assert NewDocument("a", metadata=metadata).metadata_json == json.dumps(metadata, ensure_ascii=False)
    assert NewDocument("a", metadata={}).metadata_json is None


@pytest.mark.parametrize("metadata", [{}, {"a": [1, {"b": None}]}])
def test_a_document_can_be_copied_and_sent_to_another_process(metadata: dict[str, Any]) -> None:
    document = NewDocument("a", metadata=metadata, cost=2.0, pages=3)
    sent = pickle.loads(pickle.dumps(document))  # noqa: S301 - our own
    assert document == copy.copy(document) == copy.deepcopy(document) == sent


@pytest.mark.parametrize("deepen", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_metadata_is_not_nested_deeper_than_others_can_read(deepen: Callable[[Any], Any]) -> None:
    inner: Any = 1
    for _ in range(MAX_METADATA_DEPTH - 1):
        inner = deepen(inner)
    assert NewDocument("a", metadata={"a": inner, "b": [{}] * 200}).metadata["a"] == inner
    with pytest.raises(InvalidInputError, match="nested 100 deep"):
        NewDocument("a", metadata={"a": deepen(inner)})

"""Settings from a file, the environment and flags, each stronger than the one before."""

from pathlib import Path

import pytest

from inturn.config import DEFAULT_PROCESSOR, Settings, load
from inturn.errors import InvalidInputError


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    settings = load({}, {}, tmp_path)
    assert (settings.store, settings.lang, settings.operator) == ("inturn.db", None, None)
    assert {origin.origin for origin in settings.origins} == {"default"}


@pytest.mark.parametrize(
    ("flag", "variable", "expected"), [("flag", "env", "flag"), (None, "env", "env"), (None, "", "file")]
)
def test_flags_beat_the_environment_and_that_the_file(
    tmp_path: Path, flag: str | None, variable: str, expected: str
) -> None:
    (tmp_path / "inturn.toml").write_text('store = "file"')
    assert load({"store": flag}, {"INTURN_STORE": variable}, tmp_path).store == expected


def test_the_file_may_lie_elsewhere(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('lang = "pl"')
    assert load({}, {"INTURN_CONFIG": str(other)}, tmp_path / "here").lang == "pl"
    with pytest.raises(InvalidInputError, match="unset INTURN_CONFIG"):
        load({}, {"INTURN_CONFIG": "missing.toml"}, tmp_path)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ('stor = "x"', "did you mean 'store'"),
        ("colour = 1", "the settings are store, lang, operator"),
        ("store = 5", "text in quotes"),
        ('store = ""', "text in quotes"),
        ("store =", "cannot be read"),
        ("origins = []", "unknown setting"),
        ("slots = 0", "from 1 to 1000"),
        ("slots = 2.5", "a whole number"),
        ("slots = true", "a whole number"),
        ('lease = "soon"', "lease .file .*. must be a number"),
        ("keep = nan", "keep .file"),
    ],
)
def test_a_wrong_file_is_refused_with_advice(tmp_path: Path, text: str, advice: str) -> None:
    (tmp_path / "inturn.toml").write_text(text)
    with pytest.raises(InvalidInputError, match=advice):
        load({}, {}, tmp_path)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().store = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("store", "blobs"),
    [
        ("q.db", "q.db.blobs"),
        ("sqlite://there/q.db", "there/q.db.blobs"),
        ("memory://", None),
        ("postgres://host/queue", None),
    ],
)
def test_blobs_lie_beside_a_store_that_is_a_file(tmp_path: Path, store: str, blobs: str | None) -> None:
    assert load({"store": store}, {}, tmp_path).blobs == blobs
    assert load({"store": store}, {"INTURN_BLOBS": "s3://b"}, tmp_path).blobs == "s3://b"


def test_numbers_come_as_numbers_or_as_text(tmp_path: Path) -> None:
    (tmp_path / "inturn.toml").write_text("slots = 3\nlease = 1.5\nkeep = '7'")
    settings = load({"grace": 2.0}, {"INTURN_TIMEOUT": "9"}, tmp_path)
    assert (settings.slots, settings.lease, settings.keep) == (3, 1.5, 7)
    assert (settings.grace, settings.timeout) == (2, 9)
    with pytest.raises(InvalidInputError, match="environment INTURN_SLOTS"):
        load({}, {"INTURN_SLOTS": "many"}, tmp_path)


def test_earlier_name_of_the_default_processor_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "inturn.toml").write_text('processor = "inturn.processing.extract:extract"')
    assert load({}, {}, tmp_path).processor == Settings().processor == DEFAULT_PROCESSOR

"""Settings from a file, the environment and flags, each stronger than the one before."""

from pathlib import Path

import pytest

from inturn.config import Settings, load
from inturn.errors import InvalidInputError


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    settings = load({}, {}, tmp_path)
    assert (settings.store, settings.lang, settings.operator) == ("inturn.db", None, None)
    assert {each.origin for each in settings.origins} == {"default"}


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
    ],
)
def test_a_wrong_file_is_refused_with_advice(tmp_path: Path, text: str, advice: str) -> None:
    (tmp_path / "inturn.toml").write_text(text)
    with pytest.raises(InvalidInputError, match=advice):
        load({}, {}, tmp_path)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().store = "x"  # type: ignore[misc]

"""Settings of this machine: from `inturn.toml`, the environment and flags, each stronger than the one before.

What holds for the queue itself (thresholds, order, weights) is kept in its store, not here.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from inturn.errors import InvalidInputError

FILE: Final = "inturn.toml"
FILE_VARIABLE: Final = "INTURN_CONFIG"


class Setting(NamedTuple):
    """One setting, and where its value came from."""

    name: str
    value: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line needs to know before it asks the store."""

    store: str = "inturn.db"
    lang: str | None = None
    operator: str | None = None
    origins: tuple[Setting, ...] = ()
    """Each setting again, with where it came from."""


NAMES: Final = tuple(each.name for each in fields(Settings) if each.name != "origins")


def load(flags: Mapping[str, str | None], environ: Mapping[str, str], folder: Path) -> Settings:
    """The settings as they hold in this folder; a flag that is None was not given."""
    found = {name: Setting(name, getattr(Settings(), name), "default") for name in NAMES}
    path = _file(environ, folder)
    if path is not None:
        found |= {name: Setting(name, value, f"file {path}") for name, value in _read(path).items()}
    for name in NAMES:
        variable = f"INTURN_{name.upper()}"
        if environ.get(variable):
            found[name] = Setting(name, environ[variable], f"environment {variable}")
    for name, value in flags.items():
        if value is not None:
            found[name] = Setting(name, value, "flag")
    values: dict[str, Any] = {name: each.value for name, each in found.items()}
    return Settings(**values, origins=tuple(found.values()))


def _file(environ: Mapping[str, str], folder: Path) -> Path | None:
    named = environ.get(FILE_VARIABLE)
    path = folder / (named or FILE)
    if path.is_file():
        return path
    if named:
        raise InvalidInputError(f"{FILE_VARIABLE} names {named}, which is no file; write it, or unset {FILE_VARIABLE}")
    return None


def _read(path: Path) -> dict[str, str]:
    try:
        kept = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as wrong:
        raise InvalidInputError(f"{path} cannot be read as settings: {wrong}; correct or remove it") from wrong
    for name, value in kept.items():
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"the settings are {', '.join(NAMES)}"
            raise InvalidInputError(f"{path} has an unknown setting {name!r}; {advice}")
        if not isinstance(value, str) or not value:
            raise InvalidInputError(f'{path}: {name} must be text in quotes, such as {name} = "…", not {value!r}')
    return kept

"""Load the settings of this machine from `inturn.toml`, the environment and flags; later sources win.

Settings of the queue itself (thresholds, order, weights) are in its store.
"""

import difflib
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from inturn.errors import InvalidInputError

CONFIG_FILE: Final = "inturn.toml"
CONFIG_FILE_VARIABLE: Final = "INTURN_CONFIG"
DEFAULT_PROCESSOR: Final = "inturn.extract.extract:extract"
"""The processor that comes with Inturn."""
PROCESSOR_ALIASES: Final = {"inturn.processing.extract:extract": DEFAULT_PROCESSOR}
"""Names that processors had in earlier versions, and that users' settings may still hold."""
DAY_SECONDS: Final = 86_400

Value = str | int | float | None


class Setting(NamedTuple):
    """One setting and the source of its value."""

    name: str
    value: Value
    origin: str


class Range(NamedTuple):
    """The allowed range of a numeric setting."""

    minimum: float
    maximum: float
    is_whole: bool = False

    def parse(self, name: str, raw: str | float) -> float:
        """Parse and validate a value, which is text or a number."""
        try:
            value = int(raw) if self.is_whole and not isinstance(raw, float) else float(raw)
        except (ValueError, OverflowError):
            value = math.nan
        if (
            isinstance(raw, bool)
            or not self.minimum <= value <= self.maximum
            or (self.is_whole and type(value) is float)
        ):
            kind = "a whole number" if self.is_whole else "a number"
            raise InvalidInputError(f"{name} must be {kind} from {self.minimum:g} to {self.maximum:g}, not {raw!r}")
        return value


NUMBER_RANGES: Final = {
    "slots": Range(1, 1_000, is_whole=True),
    "lease": Range(0.1, DAY_SECONDS),
    "timeout": Range(0.1, 7 * DAY_SECONDS),
    "grace": Range(0, DAY_SECONDS),
    "keep": Range(0, 36_500),
    "max_pages": Range(1, 1_000_000, is_whole=True),
    "max_megapixels": Range(0.001, 100_000),
    "max_text": Range(0.001, 10_000),
    "max_unpacked": Range(0.001, 100_000),
    "max_memory": Range(256, 1_000_000),
    "port": Range(0, 65_535, is_whole=True),
    "max_file": Range(0.001, 100_000),
    "max_body": Range(0.001, 1_000_000),
    "max_files": Range(1, 1_000, is_whole=True),
    "max_fields": Range(1, 1_000, is_whole=True),
    "requests_per_second": Range(0.01, 1_000_000),
    "burst": Range(1, 1_000_000, is_whole=True),
    "failed_logins": Range(1, 1_000_000, is_whole=True),
    "max_waiting": Range(1, 1_000_000_000, is_whole=True),
    "max_stored": Range(0.000001, 1_000_000_000),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. Sizes are in megabytes unless noted, durations in seconds."""

    store: str = "inturn.db"
    lang: str | None = None
    operator: str | None = None
    blobs: str | None = None
    """Address of the blob store; None: a folder beside the store's file, or none if the store is not a file."""
    processor: str = DEFAULT_PROCESSOR
    module: str | None = None
    """A module with functions marked as the processors of queues, instead of `processor`."""
    queues: str = "default"
    """The queues that a worker serves, separated by commas: a name, or `name=module:function`."""
    slots: int = 2
    lease: float = 60
    timeout: float | None = None
    """For one document; None: 900, or 120 in the sandbox."""
    grace: float = 30
    fetch: str | None = None
    """Hosts that documents may be fetched from, separated by commas."""
    keep: float = 30
    """Retention of ended documents in days."""
    max_pages: int = 2_000
    """This and the next three limit a document of the built-in processor."""
    max_megapixels: float = 89
    max_text: float = 10
    max_unpacked: float = 200
    max_memory: float = 1024
    """Memory limit of a process in the sandbox."""
    host: str = "127.0.0.1"
    port: int = 8000
    auth: str = "auto"
    """`keys` requires an API key; `auto` requires none on loopback addresses."""
    max_file: float = 50
    """Size of one uploaded file."""
    max_body: float = 100
    max_files: int = 10
    max_fields: int = 20
    requests_per_second: float = 20
    """For one API key."""
    burst: int = 60
    failed_logins: int = 10
    """Failed logins from one address within 15 minutes."""
    max_waiting: int = 10_000
    """Waiting documents of one customer."""
    max_stored: float = 5
    """Stored documents of one customer, in gigabytes."""
    origins: tuple[Setting, ...] = ()
    """Every setting with its source."""

    def is_set(self, name: str) -> bool:
        """Return whether a setting has a value from a file, the environment or a flag."""
        return any(setting.name == name and setting.origin != "default" for setting in self.origins)


SETTING_NAMES: Final = tuple(field.name for field in fields(Settings) if field.name != "origins")


def load(flags: Mapping[str, Value | Sequence[str]], environ: Mapping[str, str], folder: Path) -> Settings:
    """Load the settings for a folder. A flag that is None counts as not set."""
    settings = {name: Setting(name, getattr(Settings(), name), "default") for name in SETTING_NAMES}
    path = _config_file(environ, folder)
    if path is not None:
        settings |= {name: Setting(name, value, f"file {path}") for name, value in _read_file(path).items()}
    for name in SETTING_NAMES:
        variable = f"INTURN_{name.upper()}"
        if environ.get(variable):
            settings[name] = Setting(name, environ[variable], f"environment {variable}")
    for name, value in flags.items():
        given = value if value is None or isinstance(value, (str, int, float)) else ",".join(value) or None
        if given is not None:
            settings[name] = Setting(name, given, "flag")
    settings = {name: _parse_number(setting) for name, setting in settings.items()}
    name, processor, origin = settings["processor"]
    settings["processor"] = Setting(name, current_processor_name(str(processor)), origin)
    if settings["blobs"].value is None:
        settings["blobs"] = Setting("blobs", default_blob_folder(str(settings["store"].value)), "default")
    values: dict[str, Any] = {name: setting.value for name, setting in settings.items()}
    return Settings(**values, origins=tuple(settings.values()))


def current_processor_name(name: str) -> str:
    """Replace a processor's earlier name by its present one; other names stay as they are."""
    return PROCESSOR_ALIASES.get(name, name)


def store_file(url: str) -> Path | None:
    """Return the file of a store; None if the store is not a file."""
    path = url.removeprefix("sqlite://")
    return None if "://" in path else Path(path)


def default_blob_folder(store: str) -> str | None:
    """Return the default blob folder: the store's file name with `.blobs` appended."""
    path = store_file(store)
    return None if path is None else f"{path}.blobs"


def _parse_number(setting: Setting) -> Setting:
    name, value, origin = setting
    if name not in NUMBER_RANGES or value is None:
        return setting
    return Setting(name, NUMBER_RANGES[name].parse(f"{name} ({origin})", value), origin)


def _config_file(environ: Mapping[str, str], folder: Path) -> Path | None:
    named = environ.get(CONFIG_FILE_VARIABLE)
    path = folder / (named or CONFIG_FILE)
    if path.is_file():
        return path
    if named:
        raise InvalidInputError(
            f"{CONFIG_FILE_VARIABLE} names {named}, which is not a file; create it, or unset {CONFIG_FILE_VARIABLE}"
        )
    return None


def _read_file(path: Path) -> dict[str, str | float]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read as settings: {error}; correct or remove it") from error
    for name, value in values.items():
        if name not in SETTING_NAMES:
            near = difflib.get_close_matches(name, SETTING_NAMES, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"the settings are {', '.join(SETTING_NAMES)}"
            raise InvalidInputError(f"{path} has an unknown setting {name!r}; {advice}")
        if name in NUMBER_RANGES and isinstance(value, (int, float)):
            continue
        if name == "queues" and isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            values[name] = ",".join(value)
            continue
        if not isinstance(value, str) or not value:
            raise InvalidInputError(f'{path}: {name} must be text in quotes, such as {name} = "…", not {value!r}')
    return values

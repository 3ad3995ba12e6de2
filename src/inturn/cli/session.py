"""What every command has: settings, a store, a language, a way to print; and the options that choose them."""

import functools
import getpass
import inspect
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, Self

import typer

from inturn import config
from inturn.cli.output import out, printable
from inturn.errors import InvalidInputError, NotFoundError
from inturn.i18n import Texts, choose
from inturn.insights import Insights
from inturn.model import clean_text
from inturn.queue import Queue
from inturn.store import Operator
from inturn.stores import open_store

MAX_WHY: Final = 1_000


def _option(name: str, kind: Any, default: Any, option: Any) -> inspect.Parameter:
    annotation = Annotated[kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_STORE = typer.Option("--store", metavar="URL", help="Where the queue is kept: a file. [INTURN_STORE]")
_JSON = typer.Option("--json", help="Print one JSON object a line.")
_LANG = typer.Option("--lang", metavar="LANG", help="Language: en, de, es, pl or pt. [INTURN_LANG]")
_BY = typer.Option("--by", metavar="NAME", help="Who does this; else your login name. [INTURN_OPERATOR]")
_WHY = typer.Option("--why", metavar="TEXT", help="Why; kept with the change.")
COMMON: Final = {
    "store": _option("store", str | None, None, _STORE),
    "as_json": _option("as_json", bool, False, _JSON),
    "lang": _option("lang", str | None, None, _LANG),
}
OPERATING: Final = {"by": _option("by", str | None, None, _BY), "why": _option("why", str, "", _WHY)}


class Session:
    """One run of a command."""

    def __init__(self, settings: config.Settings, *, as_json: bool, creates: bool, why: str = "") -> None:
        self.settings = settings
        self.as_json = as_json
        self.console = out()
        self._language = choose(settings.lang, os.environ)
        self._creates = creates
        self._why = why
        self._queue: Queue | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._queue is not None:
            self._queue.close()

    @functools.cached_property
    def texts(self) -> Texts:
        """The reader's language."""
        return Texts(self._language)

    @property
    def queue(self) -> Queue:
        """The queue; opened when first asked for."""
        if self._queue is None:
            self._queue = open_queue(self.settings.store, creates=self._creates)
        return self._queue

    @property
    def insights(self) -> Insights:
        """The read model of the queue."""
        return Insights(self.queue.store)

    @property
    def operator(self) -> Operator:
        """Who runs this command, and why."""
        name = clean_text("an operator's name", self.settings.operator or _login_name())
        return Operator(name, clean_text("--why", self._why, MAX_WHY) if self._why else "")

    def emit(self, record: Mapping[str, Any]) -> None:
        """One JSON object on one line."""
        typer.echo(json.dumps(record, ensure_ascii=False))

    def write(self, text: str) -> None:
        """One line for people, wrapped by words in a terminal."""
        self.console.print(printable(text), markup=False, soft_wrap=not self.console.is_terminal)

    def say(self, key: str, *, n: float = 1, **values: object) -> None:
        """One text in the reader's language."""
        self.write(self.texts.text(key, n=n, **values))


def open_queue(url: str, *, creates: bool) -> Queue:
    """The queue at this address. Commands that only look at it make no new one: that would hide a mistyped name."""
    path = store_file(url)
    if path is not None and not creates and not path.exists():
        raise NotFoundError(
            f"there is no queue at {str(path)!r} yet; give another --store, or make one here with `inturn migrate`"
        )
    return Queue(open_store(url))


def store_file(url: str) -> Path | None:
    """The file that keeps the queue, if it is kept in one."""
    path = url.removeprefix("sqlite://")
    return None if "://" in path else Path(path)


def add(
    app: typer.Typer,
    function: Callable[..., None],
    name: str | None = None,
    *,
    creates: bool = False,
    operates: bool = False,
) -> None:
    """Make a function a command; its first argument is a session, built from the options that all commands have.

    `creates`: the command may make a new queue. `operates`: it changes something, so it takes --by and --why.
    """
    common = COMMON | OPERATING if operates else COMMON

    def run(**given: Any) -> None:
        chosen = {each: given.pop(each) for each in common}
        flags = {"store": chosen["store"], "lang": chosen["lang"], "operator": chosen.get("by")}
        settings = config.load(flags, os.environ, Path.cwd())
        with Session(settings, as_json=chosen["as_json"], creates=creates, why=chosen.get("why", "")) as session:
            function(session, **given)

    own = list(inspect.signature(function).parameters.values())[1:]
    run.__signature__ = inspect.Signature([*own, *common.values()])  # type: ignore[attr-defined]  # typer reads it
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    app.command(name or function.__name__)(run)


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise InvalidInputError("this machine knows no login name for you; say who you are with --by") from None

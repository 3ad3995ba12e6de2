"""Build the session of a command from the options that all commands share, and register commands."""

import functools
import getpass
import inspect
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, NoReturn, Self
from urllib.parse import unquote

import typer

from inturn import config
from inturn.blobs import Blobs, open_blobs
from inturn.cli.durations import convert_to_unit
from inturn.cli.output import printable, stdout_console
from inturn.errors import InvalidInputError, StoreNotFoundError, StoreReadOnlyError
from inturn.i18n import Texts, choose
from inturn.insights import Insights
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import clean_text

MAX_WHY_LENGTH: Final = 1_000
COMMON_PANEL: Final = "Common options"
SETTINGS_PANEL: Final = "Settings of this machine"


def _option(name: str, kind: Any, default: Any, option: Any) -> inspect.Parameter:
    annotation = Annotated[kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _setting(name: str, metavar: str, text: str, kind: Any = str) -> inspect.Parameter:
    """Build an option that is also a setting of this machine."""
    flag = typer.Option(
        f"--{name.replace('_', '-')}",
        metavar=metavar,
        help=f"{text} [INTURN_{name.upper()}]",
        rich_help_panel=SETTINGS_PANEL,
    )
    return _option(name, kind | None, None, flag)


def _duration_setting(name: str, unit: str, text: str) -> inspect.Parameter:
    """Build an option for a duration: a number in this unit, or a text that names its unit."""

    def number(text_value: str) -> float:
        try:
            return float(convert_to_unit(unit[0].lower(), text_value))
        except ValueError:
            raise typer.BadParameter(f"{text_value!r} is neither a number nor a time such as 90s, 15m or 7d") from None

    flag = typer.Option(
        f"--{name}",
        metavar=unit,
        parser=number,
        help=f"{text} [INTURN_{name.upper()}]",
        rich_help_panel=SETTINGS_PANEL,
    )
    return _option(name, float | None, None, flag)


_STORE = typer.Option(
    "--store",
    metavar="URL",
    help="Where the queue is: a file, or postgresql://…. [INTURN_STORE]",
    rich_help_panel=COMMON_PANEL,
)
_JSON = typer.Option("--json", help="Print one JSON object a line.", rich_help_panel=COMMON_PANEL)
_LANG = typer.Option(
    "--lang", metavar="LANG", help="Language: en, de, es, pl or pt. [INTURN_LANG]", rich_help_panel=COMMON_PANEL
)
_BY = typer.Option(
    "--by", metavar="NAME", help="Who does this; else your login name. [INTURN_OPERATOR]", rich_help_panel=COMMON_PANEL
)
_WHY = typer.Option("--why", metavar="TEXT", help="Why; kept with the change.", rich_help_panel=COMMON_PANEL)
_QUEUES = typer.Option(
    "--queue",
    metavar="NAME[=MODULE:FUNCTION]",
    help="A queue to serve, with a processor of its own if it names one; may be given again. [INTURN_QUEUES]",
    rich_help_panel=SETTINGS_PANEL,
)
COMMON_OPTIONS: Final = {
    "store": _option("store", str | None, None, _STORE),
    "as_json": _option("as_json", bool, False, _JSON),
    "lang": _option("lang", str | None, None, _LANG),
}
SETTING_OPTIONS: Final = {
    "blobs": _setting("blobs", "URL", "Where documents' files are: a folder, or s3://bucket/prefix."),
    "processor": _setting("processor", "MODULE:FUNCTION", "Your processor; else the built-in one."),
    "module": _setting("module", "MODULE", "A module with functions marked as the processors of queues."),
    "queues": _option("queues", list[str] | None, None, _QUEUES),
    "slots": _setting("slots", "N", "Documents to process at a time.", int),
    "lease": _duration_setting("lease", "SECONDS", "A worker without a heartbeat for this long loses its documents."),
    "timeout": _duration_setting("timeout", "SECONDS", "Time for one document, such as 90 or 15m."),
    "grace": _duration_setting("grace", "SECONDS", "Time for running documents when the worker is stopped."),
    "fetch": _setting("fetch", "HOSTS", "Hosts that documents given by address may be fetched from."),
    "keep": _duration_setting("keep", "DAYS", "How long finished documents are kept, such as 30 or 12h."),
    "max_pages": _setting("max_pages", "N", "Pages of a document that the built-in processor reads.", int),
    "max_megapixels": _setting("max_megapixels", "N", "Megapixels of a picture that it reads.", float),
    "max_text": _setting("max_text", "MB", "Megabytes of a text that it reads.", float),
    "max_unpacked": _setting("max_unpacked", "MB", "Megabytes that a packed document may open to.", float),
    "max_memory": _setting("max_memory", "MB", "Megabytes of memory for a process in the sandbox.", float),
    "host": _setting("host", "ADDRESS", "Address to listen on; non-local addresses need API keys."),
    "port": _setting("port", "N", "The port to listen on; 0 is any free one.", int),
    "auth": _setting("auth", "auto|keys", "keys: local programs need an API key too."),
}
OPERATOR_OPTIONS: Final = {"by": _option("by", str | None, None, _BY), "why": _option("why", str, "", _WHY)}


class Session:
    """One run of a command: its settings, queue, language and output."""

    def __init__(self, settings: config.Settings, *, as_json: bool, may_create: bool, why: str = "") -> None:
        self.settings = settings
        self.as_json = as_json
        self.console = stdout_console()
        self._language = choose(settings.lang, os.environ)
        self._may_create = may_create
        self._why = why
        self._queue: Queue | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._queue is not None:
            self._queue.close()

    @functools.cached_property
    def texts(self) -> Texts:
        """The texts of the user's language."""
        return Texts(self._language)

    @property
    def queue(self) -> Queue:
        """The queue, opened on first use."""
        if self._queue is None:
            url = self.settings.store
            is_new = is_missing_file(url)
            self._queue = open_queue(url, may_create=self._may_create)
            if is_new and not self.as_json:
                self.warn(self.texts.text("queue_made", path=config.store_file(url)))
        return self._queue

    def require_queue(self) -> None:
        """Raise if the address has no queue; a file that this command may create is created later."""
        url = self.settings.store
        path = config.store_file(url)
        if self._may_create and path is not None and is_missing_file(url):
            if not path.parent.is_dir():  # else blobs beside the queue would make a mistyped folder
                raise StoreReadOnlyError(f"there is no folder {path.parent} for the queue; make it, or correct --store")
        else:
            _ = self.queue

    def blobs(self, *, may_create: bool = False) -> Blobs | None:
        """Open the blob store; None if none is configured, or if its folder is missing and may not be created."""
        url = self.settings.blobs
        if url is None or (not may_create and is_missing_folder(url)):
            return None
        return open_blobs(url)

    def require_blobs(self) -> Blobs:
        """Open the blob store, and create it if it is missing."""
        blobs = self.blobs(may_create=True)
        if blobs is None:
            raise InvalidInputError(
                f"a queue at {self.settings.store} has no folder for documents' files; give one with --blobs"
            )
        return blobs

    @property
    def insights(self) -> Insights:
        """The read model of the queue."""
        return Insights(self.queue)

    @property
    def operator(self) -> Operator:
        """The operator who runs this command, with the reason."""
        name = clean_text("an operator's name", self.settings.operator or _login_name())
        return Operator(name, clean_text("--why", self._why, MAX_WHY_LENGTH) if self._why else "")

    def emit(self, record: Mapping[str, Any]) -> None:
        """Print a JSON object on one line."""
        typer.echo(json.dumps(record, ensure_ascii=False))

    def write(self, text: str) -> None:
        """Print a text, wrapped by words in a terminal."""
        self.console.print(printable(text), markup=False, soft_wrap=not self.console.is_terminal)

    def warn(self, text: str) -> None:
        """Print a line to standard error, apart from the data."""
        typer.echo(printable(text), err=True)

    def print_text(self, text_key: str, *, n: float = 1, **values: object) -> None:
        """Print a text in the user's language."""
        self.write(self.texts.text(text_key, n=n, **values))


def open_queue(url: str, *, may_create: bool) -> Queue:
    """Open a queue. A missing file is created only with `may_create`, so that a mistyped name is noticed."""
    if not may_create and is_missing_file(url):
        raise_missing_store(url)
    return Queue(open_store(url))


def raise_missing_store(url: str) -> NoReturn:
    """Raise an error that names the command to create a queue."""
    path = str(config.store_file(url))
    raise StoreNotFoundError(
        f"there is no queue at {path!r} yet; give another --store, or make one here with:"
        f" inturn migrate --store {shlex.quote(path)}"
    )


def is_missing_file(url: str) -> bool:
    """Check for a store in a file that is missing or empty."""
    path = config.store_file(url)
    return path is not None and not path.is_dir() and (not path.exists() or path.stat().st_size == 0)


def is_missing_folder(url: str) -> bool:
    """Check for a blob folder that does not exist."""
    path = unquote(url.removeprefix("file://")) if url.startswith("file://") else url
    return "://" not in path and not Path(path).exists()


def redact_password(url: str) -> str:
    """Replace the password in an address, for logs."""
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1…", re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:…@", url))


def add_command(  # noqa: PLR0913 - one keyword for each property of a command
    app: typer.Typer,
    function: Callable[..., None],
    name: str | None = None,
    *,
    may_create: bool = False,
    needs_operator: bool = False,
    settings: Sequence[str] = (),
    panel: str | None = None,
    short_help: str | None = None,
    hidden: bool = False,
) -> None:
    """Register a function as a command; its first argument is a session, built from the common options.

    `may_create`: the command may create a queue. `needs_operator`: it changes something and takes --by and --why.
    `settings`: settings of this machine that it takes as options, besides the store. A parameter of the function with
    the name of a common option replaces that option. `panel`: its group in `inturn --help`, which shows the first
    paragraph of the docstring, or `short_help`.
    """
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    app.command(
        name or function.__name__,
        help="\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs),  # Typer keeps line breaks
        short_help=short_help,
        hidden=hidden,
        rich_help_panel=panel,
    )(_with_session(function, may_create=may_create, needs_operator=needs_operator, settings=settings))


def add_group_default(app: typer.Typer, function: Callable[..., None]) -> None:
    """Register what a group of commands does without one of them. The function takes a session alone."""
    run = _with_session(function, may_create=False, needs_operator=False, settings=())

    def run_alone(context: typer.Context, **arguments: Any) -> None:
        if context.invoked_subcommand is None:
            run(**arguments)
        elif any(getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE" for name in arguments):
            raise InvalidInputError(
                f"give options after the command: {context.command_path} {context.invoked_subcommand} …"
            )

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    options = inspect.signature(run).parameters.values()
    run_alone.__signature__ = inspect.Signature([context, *options])  # type: ignore[attr-defined]  # typer reads it
    app.callback(invoke_without_command=True)(run_alone)


def _with_session(
    function: Callable[..., None], *, may_create: bool, needs_operator: bool, settings: Sequence[str]
) -> Callable[..., None]:
    """Return a function for typer that takes the common options too, and calls this one with a session."""
    own_settings = {setting: SETTING_OPTIONS[setting] for setting in settings}
    own = list(inspect.signature(function).parameters.values())[1:]
    shared = own_settings | COMMON_OPTIONS | (OPERATOR_OPTIONS if needs_operator else {})
    common = {name: option for name, option in shared.items() if name not in {parameter.name for parameter in own}}

    def run(**arguments: Any) -> None:
        chosen = {option: arguments.pop(option) for option in common}
        flags = {setting: chosen.get(setting) for setting in ("store", "lang", *settings)} | {
            "operator": chosen.get("by")
        }
        loaded = config.load(flags, os.environ, Path.cwd())
        with Session(loaded, as_json=chosen["as_json"], may_create=may_create, why=chosen.get("why", "")) as session:
            function(session, **arguments)

    run.__signature__ = inspect.Signature([*own, *common.values()])  # type: ignore[attr-defined]  # typer reads it
    run.__name__ = function.__name__
    return run


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise InvalidInputError("this machine has no login name for you; give your name with --by") from None

"""Calls a processor with a document and puts what came of it into words."""

import asyncio
import importlib
import inspect
import shutil
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from inturn.errors import InturnError, InvalidInputError
from inturn.processing.handler import OpenDocument, Reject, Result, Retry

Processor = Callable[[OpenDocument], Any]
Any_ = TypeVar("Any_", bound=Callable[..., Any])
MARK: Final = "inturn_runs_in"
MAX_TEXT: Final = 8_000
DEFAULT: Final = "inturn.processing.extract:extract"
"""The processor that comes with Inturn."""


class Where(StrEnum):
    """Where a processor runs."""

    PROCESSES = "processes"
    """One child process for each slot: for work that needs the CPU, and what may crash."""
    THREADS = "threads"
    """Threads of one child: for work that mostly waits."""
    LOOP = "loop"
    """One event loop of one child: for `async def`."""


def runs_in(where: str) -> Callable[[Any_], Any_]:
    """Ask for `threads` instead of `processes`, for a processor that mostly waits for others."""
    if where not in {Where.PROCESSES, Where.THREADS}:
        raise InvalidInputError(f"a processor runs in processes or threads, not {where!r}; async def runs in a loop")

    def marked(processor: Any_) -> Any_:
        setattr(processor, MARK, where)
        return processor

    return marked


def where_of(processor: Callable[..., Any]) -> Where:
    """Where this one wants to run."""
    called = processor if inspect.isroutine(processor) else type(processor).__call__
    if inspect.iscoroutinefunction(called):
        return Where.LOOP
    return Where(getattr(processor, MARK, Where.PROCESSES))


def load(path: str) -> Processor:
    """The processor that `package.module:function` names."""
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise InvalidInputError(f"a processor is named as package.module:function, not {path!r}")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module}.".startswith(f"{missing.name}."):
            raise
        raise InvalidInputError(
            f"there is no module {missing.name!r} for the processor {path!r}: install it, or start the worker in the"
            f" folder that has it"
        ) from missing
    except AttributeError as missing:
        raise InvalidInputError(f"module {module!r} has no {name!r} to be a processor") from missing
    if not callable(found):
        raise InvalidInputError(f"{path!r} cannot be called; a processor is a function that takes a document")
    return found  # type: ignore[no-any-return]  # what it takes and returns shows when it is called


class Said(StrEnum):
    """What a processor said of a document."""

    DONE = "done"
    RETRY = "retry"
    REJECT = "reject"
    ERROR = "error"


class Told(NamedTuple):
    """What came of a document: the value and files of a result, or a reason."""

    said: Said
    value: Any = None
    """With DONE the result; with RETRY the seconds until then, or None."""
    reason: str = ""
    files: Mapping[str, bytes | Path] = {}


def perform(processor: Processor, document: OpenDocument) -> Told:
    """Call it; whatever it raises is told and not raised."""
    try:
        return _returned(processor(document))
    except BaseException as wrong:  # noqa: BLE001 - whatever a processor raises is an outcome, an exit too
        return _raised(wrong)


async def perform_async(processor: Callable[[OpenDocument], Awaitable[Any]], document: OpenDocument) -> Told:
    """Await it; whatever it raises is told and not raised."""
    try:
        return _returned(await processor(document))
    except asyncio.CancelledError:
        raise
    except BaseException as wrong:  # noqa: BLE001 - whatever a processor raises is an outcome, an exit too
        return _raised(wrong)


def keep_files(files: Mapping[str, bytes | Path], folder: Path, numbers: "count[int]") -> list[list[str]]:
    """Write a result's files where the worker picks them up: each one's own name, and that in the folder."""
    kept = []
    for name, content in files.items():
        place = folder / f"file-{next(numbers)}"
        if isinstance(content, Path):
            shutil.copyfile(content, place)
        else:
            place.write_bytes(content)
        kept.append([name, place.name])
    return kept


def _returned(value: Any) -> Told:
    result = value if isinstance(value, Result) else Result(value)
    for name, content in result.files.items():
        if not isinstance(name, str) or not isinstance(content, (bytes, Path)):
            raise TypeError(f"a result's files are bytes or paths by name, not {name!r}: {type(content).__name__}")
    return Told(Said.DONE, result.value, files=result.files)


def _raised(wrong: BaseException) -> Told:
    match wrong:
        case Retry():
            return Told(Said.RETRY, wrong.after, str(wrong))
        case Reject():
            return Told(Said.REJECT, reason=str(wrong))
        case MemoryError():
            return Told(Said.ERROR, reason="the processor ran out of memory")
        case InturnError():
            return Told(Said.ERROR, reason=str(wrong))
        case _:
            return Told(Said.ERROR, reason=_in_words(wrong))


def _in_words(wrong: BaseException) -> str:
    """The error, then where it was raised, from the processor on: what stands above is ours and says nothing."""
    head = "".join(traceback.format_exception_only(wrong)).strip()
    frames = [frame for frame in traceback.extract_tb(sys.exc_info()[2]) if frame.filename != __file__]
    return f"{head}\n\n{''.join(traceback.format_list(frames))}"[:MAX_TEXT].rstrip()

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

from inturn.config import current_processor_name
from inturn.errors import InturnError, InvalidInputError
from inturn.processor import OpenDocument, Reject, Result, Retry

Processor = Callable[[OpenDocument], Any]
ProcessorT = TypeVar("ProcessorT", bound=Callable[..., Any])
MODE_ATTRIBUTE: Final = "inturn_runs_in"
MAX_REASON_CHARS: Final = 8_000


class ExecutionMode(StrEnum):
    """Where a processor runs."""

    PROCESSES = "processes"
    """One child process for each slot: for work that needs the CPU, and what may crash."""
    THREADS = "threads"
    """Threads of one child: for work that mostly waits."""
    LOOP = "loop"
    """One event loop of one child: for `async def`."""


def runs_in(where: str) -> Callable[[ProcessorT], ProcessorT]:
    """Ask for `threads` instead of `processes`, for a processor that mostly waits for others."""
    if where not in {ExecutionMode.PROCESSES, ExecutionMode.THREADS}:
        raise InvalidInputError(f"a processor runs in processes or threads, not {where!r}; async def runs in a loop")

    def marked(processor: ProcessorT) -> ProcessorT:
        setattr(processor, MODE_ATTRIBUTE, where)
        return processor

    return marked


def execution_mode(processor: Callable[..., Any]) -> ExecutionMode:
    """Where this one wants to run."""
    called = processor if inspect.isroutine(processor) else type(processor).__call__
    if inspect.iscoroutinefunction(called):
        return ExecutionMode.LOOP
    return ExecutionMode(getattr(processor, MODE_ATTRIBUTE, ExecutionMode.PROCESSES))


def load_processor(path: str) -> Processor:
    """The processor that `package.module:function` names."""
    module, colon, name = current_processor_name(path).partition(":")
    if not (module and colon and name):
        raise InvalidInputError(f"a processor is named as package.module:function, not {path!r}")
    try:
        result: Any = importlib.import_module(module)
        for part in name.split("."):
            result = getattr(result, part)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module}.".startswith(f"{missing.name}."):
            raise
        raise InvalidInputError(
            f"there is no module {missing.name!r} for the processor {path!r}: install it, or start the worker in the"
            f" folder that has it"
        ) from missing
    except AttributeError as missing:
        raise InvalidInputError(f"module {module!r} has no {name!r} to be a processor") from missing
    if not callable(result):
        raise InvalidInputError(f"{path!r} cannot be called; a processor is a function that takes a document")
    return result  # type: ignore[no-any-return]  # what it takes and returns shows when it is called


class InvocationStatus(StrEnum):
    """What a processor said of a document."""

    DONE = "done"
    RETRY = "retry"
    REJECT = "reject"
    ERROR = "error"


class InvocationResult(NamedTuple):
    """What came of a document: the value and files of a result, or a reason."""

    status: InvocationStatus
    value: Any = None
    """With DONE the result; with RETRY the seconds until then, or None."""
    reason: str = ""
    files: Mapping[str, bytes | Path] = {}


def invoke(processor: Processor, document: OpenDocument) -> InvocationResult:
    """Call it; whatever it raises is told and not raised."""
    try:
        return _from_return_value(processor(document))
    except BaseException as error:  # noqa: BLE001 - whatever a processor raises is an outcome, an exit too
        return _from_exception(error)


async def invoke_async(processor: Callable[[OpenDocument], Awaitable[Any]], document: OpenDocument) -> InvocationResult:
    """Await it; whatever it raises is told and not raised."""
    try:
        return _from_return_value(await processor(document))
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a processor raises is an outcome, an exit too
        return _from_exception(error)


def write_files(files: Mapping[str, bytes | Path], folder: Path, numbers: "count[int]") -> list[list[str]]:
    """Write a result's files where the worker picks them up: each one's own name, and that in the folder."""
    stored = []
    for name, content in files.items():
        place = folder / f"file-{next(numbers)}"
        if isinstance(content, Path):
            shutil.copyfile(content, place)
        else:
            place.write_bytes(content)
        stored.append([name, place.name])
    return stored


def _from_return_value(value: Any) -> InvocationResult:
    result = value if isinstance(value, Result) else Result(value)
    for name, content in result.files.items():
        if not isinstance(name, str) or not isinstance(content, (bytes, Path)):
            raise TypeError(f"a result's files are bytes or paths by name, not {name!r}: {type(content).__name__}")
    return InvocationResult(InvocationStatus.DONE, result.value, files=result.files)


def _from_exception(exc: BaseException) -> InvocationResult:
    match exc:
        case Retry():
            return InvocationResult(InvocationStatus.RETRY, exc.after, str(exc))
        case Reject():
            return InvocationResult(InvocationStatus.REJECT, reason=str(exc))
        case MemoryError():
            return InvocationResult(InvocationStatus.ERROR, reason="the processor ran out of memory")
        case InturnError():
            return InvocationResult(InvocationStatus.ERROR, reason=str(exc))
        case _:
            return InvocationResult(InvocationStatus.ERROR, reason=_describe_exception(exc))


def _describe_exception(exc: BaseException) -> str:
    """The error, then where it was raised, from the processor on: what stands above is ours and says nothing."""
    head = "".join(traceback.format_exception_only(exc)).strip()
    frames = [frame for frame in traceback.extract_tb(sys.exc_info()[2]) if frame.filename != __file__]
    return f"{head}\n\n{''.join(traceback.format_list(frames))}"[:MAX_REASON_CHARS].rstrip()

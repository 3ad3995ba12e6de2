"""Load a processor, call it with a document, and turn its return value or exception into a result."""

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
from inturn.processor_api import Next, OpenDocument, Parts, Reject, Result, Retry
from inturn.worker.part_writer import write_parts

Processor = Callable[[OpenDocument], Any]
ProcessorT = TypeVar("ProcessorT", bound=Callable[..., Any])
MODE_ATTRIBUTE: Final = "inturn_runs_in"
MAX_REASON_CHARS: Final = 8_000


class ExecutionMode(StrEnum):
    """How a processor's calls run side by side."""

    PROCESSES = "processes"
    """One child process per slot: for work that needs the CPU, or may crash."""
    THREADS = "threads"
    """Threads of one child: for work that mostly waits."""
    LOOP = "loop"
    """One event loop of one child: for `async def`."""


def runs_in(where: str) -> Callable[[ProcessorT], ProcessorT]:
    """Mark a processor to run in `threads` instead of `processes`, because it mostly waits."""
    if where not in {ExecutionMode.PROCESSES, ExecutionMode.THREADS}:
        raise InvalidInputError(f"a processor runs in processes or threads, not {where!r}; async def runs in a loop")

    def marked(processor: ProcessorT) -> ProcessorT:
        setattr(processor, MODE_ATTRIBUTE, where)
        return processor

    return marked


def execution_mode(processor: Callable[..., Any]) -> ExecutionMode:
    """Return the mode that a processor asks for; `async def` runs in a loop."""
    called = processor if inspect.isroutine(processor) else type(processor).__call__
    if inspect.iscoroutinefunction(called):
        return ExecutionMode.LOOP
    return ExecutionMode(getattr(processor, MODE_ATTRIBUTE, ExecutionMode.PROCESSES))


def load_processor(path: str) -> Processor:
    """Import the processor that `package.module:function` names."""
    module, colon, name = current_processor_name(path).partition(":")
    if not (module and colon and name):
        raise InvalidInputError(f"a processor is named as package.module:function, not {path!r}")
    try:
        processor: Any = importlib.import_module(module)
        for part in name.split("."):
            processor = getattr(processor, part)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module}.".startswith(f"{missing.name}."):
            raise
        raise InvalidInputError(
            f"there is no module {missing.name!r} for the processor {path!r}: install it, or start the worker in the"
            f" folder that has it"
        ) from missing
    except AttributeError as missing:
        raise InvalidInputError(f"module {module!r} has no {name!r} to be a processor") from missing
    if not callable(processor):
        raise InvalidInputError(f"{path!r} cannot be called; a processor is a function that takes a document")
    return processor  # type: ignore[no-any-return]  # its signature shows when it is called


class InvocationStatus(StrEnum):
    """How a processor's call ended."""

    DONE = "done"
    NEXT = "next"
    """With a step, after which the document goes to a queue that the processor has named."""
    SPLIT = "split"
    """With parts."""
    RETRY = "retry"
    REJECT = "reject"
    ERROR = "error"


SUCCESSES: Final = frozenset({InvocationStatus.DONE, InvocationStatus.NEXT, InvocationStatus.SPLIT})


class InvocationResult(NamedTuple):
    """The result of a call: value and files, or the reason of a failure."""

    status: InvocationStatus
    value: Any = None
    """Of a success the result; with RETRY the seconds until then, or None."""
    reason: str = ""
    files: Mapping[str, bytes | Path] = {}
    step: Next | Parts | None = None
    """With NEXT and SPLIT: what the processor has returned."""


def invoke(processor: Processor, document: OpenDocument) -> InvocationResult:
    """Call a processor; an exception becomes a result."""
    try:
        return _from_return_value(processor(document))
    except BaseException as error:  # noqa: BLE001 - whatever a processor raises is an outcome, an exit too
        return _from_exception(error)


async def invoke_async(processor: Callable[[OpenDocument], Awaitable[Any]], document: OpenDocument) -> InvocationResult:
    """Await a processor; an exception other than a cancellation becomes a result."""
    from asyncio import CancelledError  # noqa: PLC0415 - most children have no event loop, and start sooner without it

    try:
        return _from_return_value(await processor(document))
    except CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a processor raises is an outcome, an exit too
        return _from_exception(error)


def write_files(files: Mapping[str, bytes | Path], folder: Path, numbers: "count[int]") -> list[list[str]]:
    """Write a result's files into a folder; return pairs of the file's name and its name in the folder."""
    names = []
    for name, content in files.items():
        path = folder / f"file-{next(numbers)}"
        if isinstance(content, Path):
            shutil.copyfile(content, path)
        else:
            path.write_bytes(content)
        names.append([name, path.name])
    return names


def write_step(step: Next | Parts | None, folder: Path, numbers: "count[int]") -> list[str]:
    """Return what a reply says of the next step: its queue, and after a split the file that lists the parts."""
    match step:
        case None:
            return []
        case Next():
            return [step.queue]
        case Parts():
            return [step.then, write_parts(step, folder, numbers)]


def _from_return_value(value: Any) -> InvocationResult:
    match value:
        case Result():
            result = InvocationResult(InvocationStatus.DONE, value.value, files=value.files)
        case Next():
            result = InvocationResult(InvocationStatus.NEXT, value.result, files=value.files, step=value)
        case Parts():
            result = InvocationResult(InvocationStatus.SPLIT, value.result, files=value.files, step=value)
        case _:
            return InvocationResult(InvocationStatus.DONE, value)
    for name, content in result.files.items():
        if not isinstance(name, str) or not isinstance(content, (bytes, Path)):
            raise TypeError(f"a result's files are bytes or paths by name, not {name!r}: {type(content).__name__}")
    return result


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
    """Format the error and its traceback from the processor on, without the frames of this module."""
    head = "".join(traceback.format_exception_only(exc)).strip()
    frames = [frame for frame in traceback.extract_tb(sys.exc_info()[2]) if frame.filename != __file__]
    return f"{head}\n\n{''.join(traceback.format_list(frames))}"[:MAX_REASON_CHARS].rstrip()

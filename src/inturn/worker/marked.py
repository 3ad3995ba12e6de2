"""Mark functions as the processors of queues, and find those of a module."""

import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from inturn.config import NUMBER_RANGES
from inturn.errors import InvalidInputError
from inturn.model import clean_queue
from inturn.values import MAX_ATTEMPTS, parse_duration, seconds
from inturn.worker.options import QueueOptions

MARKS_ATTRIBUTE: Final = "inturn_queues"
IMPORT_TIMEOUT_SECONDS: Final = 60.0
ProcessorT = TypeVar("ProcessorT", bound=Callable[..., Any])


class Mark(NamedTuple):
    """A queue that a function processes."""

    queue: str
    options: QueueOptions


class MarkedProcessor(NamedTuple):
    """A function that a module has for a queue, by the path that a child imports."""

    path: str
    options: QueueOptions


def processor(
    *, queue: str, timeout: float | str | None = None, retries: int | None = None
) -> Callable[[ProcessorT], ProcessorT]:
    """Mark a function as the processor of a queue, for `inturn worker MODULE`. It stays as it is, and may be called.

    `timeout`: seconds for one document, or a text such as "15m"; by default the worker's. `retries`: how often this
    step is tried again after a failure; by default as often as the document allows.
    """
    mark = Mark(clean_queue(queue), QueueOptions(_clean_timeout(queue, timeout), _clean_attempts(queue, retries)))

    def marked(function: ProcessorT) -> ProcessorT:
        if not callable(function):
            raise InvalidInputError(f"the processor of {queue} must be a function, not {function!r}")
        setattr(function, MARKS_ATTRIBUTE, (*marks_of(function), mark))
        return function

    return marked


def marks_of(function: Callable[..., Any]) -> tuple[Mark, ...]:
    """Return the queues that a function was marked with."""
    marks: tuple[Mark, ...] = getattr(function, MARKS_ATTRIBUTE, ())
    return marks


def _clean_timeout(queue: str, timeout: float | str | None) -> int | None:
    if timeout is None:
        return None
    name = f"timeout of the processor of {queue}"
    value = parse_duration(name, timeout) / seconds(1) if isinstance(timeout, str) else timeout
    return seconds(NUMBER_RANGES["timeout"].parse(name, value))


def _clean_attempts(queue: str, retries: int | None) -> int | None:
    if retries is None:
        return None
    if type(retries) is not int or not 0 <= retries < MAX_ATTEMPTS:
        raise InvalidInputError(
            f"retries of the processor of {queue} must be a whole number from 0 to {MAX_ATTEMPTS - 1}, not {retries!r}"
        )
    return retries + 1


def marked_functions(module: Any) -> dict[str, tuple[str, Callable[..., Any]]]:
    """Return the marked functions of a module by queue, each with its name there.

    InvalidInputError for two of one queue, or none at all. A package has those of its own modules that it imports;
    those of other modules are left out.
    """
    functions: dict[str, tuple[str, Callable[..., Any]]] = {}
    for name, function in vars(module).items():
        if not callable(function) or not f"{function_module(function)}.".startswith(f"{module.__name__}."):
            continue
        for mark in marks_of(function):
            other, first = functions.setdefault(mark.queue, (name, function))
            if first is not function:
                raise InvalidInputError(
                    f"{module.__name__} has two processors of the queue {mark.queue!r}, {other} and {name}: keep one"
                )
    if not functions:
        raise InvalidInputError(
            f"{module.__name__} has no function marked with @inturn.processor(queue=…); {_suggest(module)}"
        )
    return functions


def _suggest(module: Any) -> str:
    """Describe what to do about a module without marked functions; those of a package may be in its modules."""
    name = next((info.name for info in pkgutil.iter_modules(getattr(module, "__path__", []))), None)
    if name is None:
        return "mark one, or name a function with --processor"
    return f"import its modules in __init__.py, or name {module.__name__}.{name}"


def function_module(function: Any) -> str:
    """Return the name of the module that defines a function, or the class of an object that can be called."""
    return str(getattr(function, "__module__", None) or type(function).__module__)


def find_processors(module: str) -> dict[str, MarkedProcessor]:
    """Return the processors of a module by queue; raise InvalidInputError if it cannot be imported, or has none.

    A process of its own imports it, as the worker's children do: the worker itself loads nothing of its processors.
    """
    readable, writable = os.pipe()
    try:
        completed = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "inturn.worker.find_marked", str(writable), module],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=(writable,),
            timeout=IMPORT_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InvalidInputError(
            f"importing {module} takes more than {IMPORT_TIMEOUT_SECONDS:g} s: do slow work when a document comes"
        ) from error
    finally:
        os.close(writable)
        with os.fdopen(readable, encoding="utf-8") as source:
            answer = source.read()
    if not answer:
        raise InvalidInputError(f"importing {module} ended its process with status {completed.returncode}")
    return _parse_answer(json.loads(answer))


def _parse_answer(answer: Mapping[str, Any]) -> dict[str, MarkedProcessor]:
    if "error" in answer:
        raise InvalidInputError(answer["error"])
    return {queue: MarkedProcessor(path, QueueOptions(*options)) for queue, (path, options) in answer.items()}


def select_processors(
    module: str, marked: Mapping[str, MarkedProcessor], chosen: Sequence[str] | None
) -> dict[str, MarkedProcessor]:
    """Return the processors of the chosen queues, or all of them."""
    if chosen is None:
        return dict(marked)
    missing = [name for name in chosen if name not in marked]
    if missing:
        raise InvalidInputError(
            f"{module} has no processor of the queue {missing[0]!r}, only of {', '.join(sorted(marked))}: name one of"
            f" these with --queue, or mark a function with @inturn.processor(queue={missing[0]!r})"
        )
    return {name: marked[name] for name in chosen}

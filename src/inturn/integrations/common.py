"""Shared by the adapters: a message's customer, its level, and the fallback when there is none."""

import inspect
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from inturn.counters import Counters
from inturn.errors import InturnError, InvalidInputError, StoreError
from inturn.model import Check

LEVEL_HEADER: Final = "inturn_level"
"""The header that says a document was checked, and what it got."""
CUSTOMER_HEADER: Final = "inturn_customer"
"""The header that says whose document it is."""
MAX_PRIORITY: Final = 10
"""Where higher goes first: level 1 is 9, level 9 is 1; 10 and 0 are left for tasks that are no customer's."""
FALLBACK_LEVEL: Final = 5
"""The level of a document that could not be checked, of a customer not seen before."""
MAX_REMEMBERED_LEVELS: Final = 10_000
MISSING_HEADER_WARN_COUNT: Final = 100
MIN_NAME_SIMILARITY: Final = 0.75
"""How much a name must resemble another one to be taken for a slip, from 0 to 1."""
POSITIONAL_KINDS: Final = frozenset({inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD})
COUNTERS_RETRY_SECONDS: Final = 1.0
"""Seconds for which counters that failed are not asked again: each publish would wait for them otherwise."""


class Publish(NamedTuple):
    """A message on its way out, as a function that names the customer sees it."""

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    headers: Mapping[str, Any]


class FromHeader(NamedTuple):
    """The customer stands in this header (Celery) or option (Dramatiq) of the message."""

    name: str


CustomerRule = str | FromHeader | Callable[[Publish], Any]
"""A task argument's name, a header, or a function; its value is converted to text, and None means no customer."""


class TaskRegistry(Protocol):
    """The tasks that this process knows; more may be registered at any time."""

    def names(self) -> Sequence[str]:
        """Those of the user's own."""
        ...

    def function(self, name: str) -> Callable[..., Any] | None:
        """What a task runs; None if it is not known here."""
        ...


class CustomerResolver:
    """Whose document a message is."""

    def __init__(self, rule: CustomerRule, tasks: TaskRegistry, log: logging.Logger) -> None:
        if not (isinstance(rule, str | FromHeader) or callable(rule)):
            raise InvalidInputError(
                f"customer must be the name of a task argument, Header(name) or a function, not {rule!r}"
            )
        self._rule = rule
        self._tasks = tasks
        self._log = log
        self._arguments: dict[str, TaskArgument] = {}
        self._warned_tasks: set[str] = set()
        self._missing_header_count: int | None = 0
        """Messages that had no header of that name; None once one had it or a warning was logged."""

    def resolve(self, publish: Publish) -> str | None:
        """Return the customer, or None."""
        result = publish.headers.get(CUSTOMER_HEADER)
        if result is None:
            if isinstance(self._rule, str):
                result = self._from_argument(self._rule, publish)
            elif isinstance(self._rule, FromHeader):
                result = self._from_header(self._rule.name, publish)
            else:
                result = self._rule(publish)
        return None if result is None or result == "" else str(result)

    def check_tasks(self) -> None:
        """Warn if no task of this process has the argument that names the customer: at the start of a worker."""
        if isinstance(self._rule, str):
            functions = [self._tasks.function(name) for name in self._tasks.names()]
            arguments = [find_argument(self._rule, function) for function in functions if function is not None]
            if arguments and not any(argument.is_accepted for argument in arguments):
                similar = sorted({argument.similar_name for argument in arguments if argument.similar_name is not None})
                meant = f" (there is {', '.join(similar)})" if similar else ""
                self._log.error(
                    "customer=%r, and no task known here has an argument of that name%s: nothing is checked, and all"
                    " tasks are nobody's; give install() the name that your tasks use",
                    self._rule,
                    meant,
                )

    def _from_argument(self, argument_name: str, publish: Publish) -> Any:
        if argument_name in publish.kwargs:
            return publish.kwargs[argument_name]
        argument = self._arguments.get(publish.name) or self._find_argument(argument_name, publish)
        if argument is None:
            return None
        place = argument.position
        return publish.args[place] if place is not None and place < len(publish.args) else argument.default

    def _find_argument(self, argument_name: str, publish: Publish) -> "TaskArgument | None":
        """Find the argument; warn, once a task, of what looks like a mistake: to have no customer is none."""
        function = self._tasks.function(publish.name)
        if function is None:
            if publish.args and publish.name not in self._warned_tasks:
                self._warned_tasks.add(publish.name)
                self._log.warning(
                    "task %s is not known in this process, so that its arguments have no names: it goes out as nobody's"
                    " and unchecked; publish it with %s=… by keyword",
                    publish.name,
                    argument_name,
                )
            return None
        argument = self._arguments[publish.name] = find_argument(argument_name, function)
        if argument.similar_name is not None:
            self._log.warning(
                "task %s has no argument %s but one called %s: it goes out as nobody's and unchecked; if that is the"
                " customer, give install() its name, or use the same name in all tasks",
                publish.name,
                argument_name,
                argument.similar_name,
            )
        return argument

    def _from_header(self, name: str, publish: Publish) -> Any:
        result = publish.headers.get(name)
        if self._missing_header_count is not None:
            self._missing_header_count = self._missing_header_count + 1 if result is None else None
            if self._missing_header_count == MISSING_HEADER_WARN_COUNT:
                self._missing_header_count = None
                self._log.warning(
                    "none of the first %d tasks that this process has published had a header %s: they went out as"
                    " nobody's and unchecked; is customer=Header(…) spelt as in apply_async(headers=…)?",
                    MISSING_HEADER_WARN_COUNT,
                    name,
                )
        return result


class TaskArgument(NamedTuple):
    """Where a task takes the argument that names the customer."""

    is_accepted: bool
    position: int | None = None
    """Among the arguments without a name; None if it has no place there."""
    default: Any = None
    similar_name: str | None = None
    """Another argument, whose name looks like it."""


def find_argument(argument_name: str, function: Callable[..., Any]) -> TaskArgument:
    """Find an argument by name in a function's signature."""
    parameters = inspect.signature(function).parameters
    parameter = parameters.get(argument_name)
    if parameter is not None and parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
        places = [name for name, parameter in parameters.items() if parameter.kind in POSITIONAL_KINDS]
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        return TaskArgument(
            is_accepted=True, position=places.index(argument_name) if argument_name in places else None, default=default
        )
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return TaskArgument(is_accepted=True)
    plain = {name.replace("_", "").lower(): name for name in parameters}
    close = get_close_matches(argument_name.replace("_", "").lower(), plain, 1, MIN_NAME_SIMILARITY)
    return TaskArgument(is_accepted=False, similar_name=plain[close[0]] if close else None)


class LevelResolver:
    """One check for each document. When the counters fail, publishing goes on with the last level known."""

    def __init__(self, counters: Counters, *, raise_errors: bool, log: logging.Logger) -> None:
        if not isinstance(counters, Counters):
            raise InvalidInputError(
                'the counters are what inturn.open_counters("redis://…") gives, not an object of type'
                f" {type(counters).__name__}: write install(…, inturn.open_counters(…), customer=…)"
            )
        self._counters = counters
        self._raise_errors = raise_errors
        self._log = log
        self._last_levels: OrderedDict[str, int] = OrderedDict()
        self._retry_at = 0.0

    def resolve(self, customer: str) -> int:
        """The level of the customer's next document."""
        return self.begin(customer)()

    def begin(self, customer: str) -> Callable[[], int]:
        """Ask for the level of the customer's next document; calling what this returns, once, gives it."""
        if time.monotonic() < self._retry_at:
            level = self._last_levels.get(customer, FALLBACK_LEVEL)
        else:
            try:
                return partial(self._receive, customer, self._counters.begin(customer))
            except InturnError as error:
                level = self._fall_back(customer, error)
        return lambda: level

    def _receive(self, customer: str, answer: Callable[[], Check]) -> int:
        try:
            level = answer().level
        except InturnError as error:
            return self._fall_back(customer, error)
        self._last_levels[customer] = level
        if len(self._last_levels) > MAX_REMEMBERED_LEVELS:
            self._last_levels.popitem(last=False)
        return level

    def _fall_back(self, customer: str, error: InturnError) -> int:
        if self._raise_errors:
            raise error
        if isinstance(error, StoreError):
            self._retry_at = time.monotonic() + COUNTERS_RETRY_SECONDS
        level = self._last_levels.get(customer, FALLBACK_LEVEL)
        self._log.warning("a document of %r was not checked and goes out with level %d: %s", customer, level, error)
        return level

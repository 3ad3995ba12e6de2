"""What the adapters share: whose document a message is, which level it gets, and what happens when nobody can say."""

import inspect
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from inturn.counters import Counters
from inturn.errors import InturnError, InvalidInputError, StoreError
from inturn.model import Check

LEVEL: Final = "inturn_level"
"""The header that says a document was checked, and what it got."""
CUSTOMER: Final = "inturn_customer"
"""The header that says whose document it is."""
HIGHEST: Final = 10
"""Where higher goes first: level 1 is 9, level 9 is 1; 10 and 0 are left for tasks that are no customer's."""
MIDDLE: Final = 5
"""The level of a document that could not be checked, of a customer not seen before."""
REMEMBERED: Final = 10_000
PAUSE: Final = 1.0
"""Seconds for which counters that failed are not asked again: each publish would wait for them otherwise."""


class Publish(NamedTuple):
    """A message on its way out, as a function that names the customer sees it."""

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    headers: Mapping[str, Any]


class Header(NamedTuple):
    """The customer stands in this header (Celery) or option (Dramatiq) of the message."""

    name: str


CustomerRule = str | Header | Callable[[Publish], Any]
"""A task argument's name, a header, or a function; whatever it gives is made text, and None is nobody's."""


class Customers:
    """Whose document a message is."""

    def __init__(self, rule: CustomerRule, function_of: Callable[[str], Callable[..., Any] | None]) -> None:
        if not (isinstance(rule, str | Header) or callable(rule)):
            raise InvalidInputError(
                f"customer must be the name of a task argument, Header(name) or a function, not {rule!r}"
            )
        self._rule = rule
        self._function_of = function_of
        self._places: dict[str, int | None] = {}

    def of(self, publish: Publish) -> str | None:
        """The customer; None when it is nobody's."""
        found = publish.headers.get(CUSTOMER)
        if found is None:
            if isinstance(self._rule, str):
                found = self._argument(self._rule, publish)
            elif isinstance(self._rule, Header):
                found = publish.headers.get(self._rule.name)
            else:
                found = self._rule(publish)
        return None if found is None or found == "" else str(found)

    def _argument(self, wanted: str, publish: Publish) -> Any:
        if wanted in publish.kwargs:
            return publish.kwargs[wanted]
        if not publish.args:
            return None
        if publish.name not in self._places:
            self._places[publish.name] = self._place(wanted, publish.name)
        place = self._places[publish.name]
        return publish.args[place] if place is not None and place < len(publish.args) else None

    def _place(self, wanted: str, name: str) -> int | None:
        """Where the argument stands among those without a name; None where the function is not known here."""
        function = self._function_of(name)
        names = list(inspect.signature(function).parameters) if function is not None else []
        return names.index(wanted) if wanted in names else None


class Levels:
    """One check for each document. When the counters fail, publishing goes on with the last level known."""

    def __init__(self, counters: Counters, *, raise_errors: bool, log: logging.Logger) -> None:
        self._counters = counters
        self._raise_errors = raise_errors
        self._log = log
        self._known: OrderedDict[str, int] = OrderedDict()
        self._asked_again = 0.0

    def of(self, customer: str) -> int:
        """The level of the customer's next document."""
        return self.begin(customer)()

    def begin(self, customer: str) -> Callable[[], int]:
        """Ask for the level of the customer's next document; calling what this returns, once, gives it."""
        if time.monotonic() < self._asked_again:
            level = self._known.get(customer, MIDDLE)
        else:
            try:
                return partial(self._heard, customer, self._counters.begin(customer))
            except InturnError as wrong:
                level = self._unknown(customer, wrong)
        return lambda: level

    def _heard(self, customer: str, answer: Callable[[], Check]) -> int:
        try:
            level = answer().level
        except InturnError as wrong:
            return self._unknown(customer, wrong)
        self._known[customer] = level
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return level

    def _unknown(self, customer: str, wrong: InturnError) -> int:
        if self._raise_errors:
            raise wrong
        if isinstance(wrong, StoreError):
            self._asked_again = time.monotonic() + PAUSE
        level = self._known.get(customer, MIDDLE)
        self._log.warning("a document of %r was not checked and goes out with level %d: %s", customer, level, wrong)
        return level

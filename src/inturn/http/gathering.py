"""What comes in while something else is being done is done together afterwards."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Generic, TypeVar

MOST: Final = 128
"""Calls that are done together at most."""
Call = TypeVar("Call")
Answer = TypeVar("Answer")


class Gathering(Generic[Call, Answer]):
    """Does many callers' work in one thread, a list at a time; each is answered, or told the error. On the event loop.

    A thread for each of them would mostly wait for the others: for the interpreter, and for its turn to write.
    """

    def __init__(self, work: Callable[[Sequence[Call]], Sequence[Answer | Exception]], name: str) -> None:
        self._work = work
        self._thread = ThreadPoolExecutor(1, name)
        self._next: list[tuple[Call, asyncio.Future[Answer]]] = []
        self._is_busy = False

    async def take(self, call: Call) -> Answer:
        """Have one call done with the next list."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._next.append((call, answer))
        if not self._is_busy:
            self._begin()
        return await answer

    def _begin(self) -> None:
        taken, self._next = self._next[:MOST], self._next[MOST:]
        self._is_busy = bool(taken)
        if taken:
            work = self._thread.submit(self._work, [call for call, _ in taken])
            asyncio.wrap_future(work).add_done_callback(partial(self._end, [answer for _, answer in taken]))

    def _end(self, taken: list[asyncio.Future[Answer]], work: "asyncio.Future[Sequence[Answer | Exception]]") -> None:
        self._begin()
        wrong = work.exception()
        answers = work.result() if wrong is None else [wrong] * len(taken)
        for future, answer in zip(taken, answers, strict=True):
            if future.done():  # whoever asked has gone
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

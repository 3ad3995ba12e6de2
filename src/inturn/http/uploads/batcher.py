"""What comes in while something else is being done is done together afterwards."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Generic, TypeVar

MAX_BATCH: Final = 128
"""Calls that are done together at most."""
Call = TypeVar("Call")
Answer = TypeVar("Answer")


class Batcher(Generic[Call, Answer]):
    """Does many callers' work in one thread, a list at a time; each is answered, or told the error. On the event loop.

    A thread for each of them would mostly wait for the others: for the interpreter, and for its turn to write.
    """

    def __init__(self, work: Callable[[Sequence[Call]], Sequence[Answer | Exception]], name: str) -> None:
        self._work = work
        self._executor = ThreadPoolExecutor(1, name)
        self._pending: list[tuple[Call, asyncio.Future[Answer]]] = []
        self._is_busy = False

    async def submit(self, call: Call) -> Answer:
        """Have one call done with the next list."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending.append((call, answer))
        if not self._is_busy:
            self._start_batch()
        return await answer

    def _start_batch(self) -> None:
        taken, self._pending = self._pending[:MAX_BATCH], self._pending[MAX_BATCH:]
        self._is_busy = bool(taken)
        if taken:
            work = self._executor.submit(self._work, [call for call, _ in taken])
            asyncio.wrap_future(work).add_done_callback(partial(self._finish_batch, [answer for _, answer in taken]))

    def _finish_batch(
        self, futures: list[asyncio.Future[Answer]], work: "asyncio.Future[Sequence[Answer | Exception]]"
    ) -> None:
        self._start_batch()
        error = work.exception()
        answers = work.result() if error is None else [error] * len(futures)
        for future, answer in zip(futures, answers, strict=True):
            if future.done():  # whoever asked has gone
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

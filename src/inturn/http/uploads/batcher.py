"""Batch concurrent calls: calls that arrive during a batch form the next one."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Generic, TypeVar

MAX_BATCH: Final = 128
Call = TypeVar("Call")
Answer = TypeVar("Answer")


class Batcher(Generic[Call, Answer]):
    """Run the calls of many coroutines in one thread, a batch at a time. Runs on the event loop.

    Threads of their own would wait for each other: for the interpreter lock and for the store's write lock.
    """

    def __init__(self, work: Callable[[Sequence[Call]], Sequence[Answer | Exception]], name: str) -> None:
        self._work = work
        self._executor = ThreadPoolExecutor(1, name)
        self._pending: list[tuple[Call, asyncio.Future[Answer]]] = []
        self._is_busy = False

    async def submit(self, call: Call) -> Answer:
        """Add a call to the next batch; return its answer or raise its error."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending.append((call, answer))
        if not self._is_busy:
            self._start_batch()
        return await answer

    def _start_batch(self) -> None:
        batch, self._pending = self._pending[:MAX_BATCH], self._pending[MAX_BATCH:]
        self._is_busy = bool(batch)
        if batch:
            work = self._executor.submit(self._work, [call for call, _ in batch])
            asyncio.wrap_future(work).add_done_callback(partial(self._finish_batch, [answer for _, answer in batch]))

    def _finish_batch(
        self, futures: list[asyncio.Future[Answer]], work: "asyncio.Future[Sequence[Answer | Exception]]"
    ) -> None:
        self._start_batch()
        error = work.exception()
        answers = work.result() if error is None else [error] * len(futures)
        for future, answer in zip(futures, answers, strict=True):
            if future.done():  # the caller has disconnected
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

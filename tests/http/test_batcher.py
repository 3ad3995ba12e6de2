"""Batcher: calls that arrive during a batch form the next one."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from inturn.http.uploads.batcher import MAX_BATCH, Batcher


def test_calls_during_a_batch_form_the_next_batch() -> None:
    lists: list[list[int]] = []
    begun, go_on = threading.Event(), threading.Event()

    def work(calls: Sequence[int]) -> list[int | Exception]:
        lists.append(list(calls))
        begun.set()
        assert go_on.wait(60)
        return [call * 2 for call in calls]

    async def run() -> list[int]:
        gathering = Batcher(work, "test")
        first = asyncio.create_task(gathering.submit(0))
        await asyncio.to_thread(begun.wait, 60)
        rest = [asyncio.create_task(gathering.submit(number)) for number in range(1, MAX_BATCH + 3)]
        await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(first, *rest)

    assert asyncio.run(run()) == [number * 2 for number in range(MAX_BATCH + 3)]
    assert lists == [[0], list(range(1, MAX_BATCH + 1)), [MAX_BATCH + 1, MAX_BATCH + 2]]


def test_each_call_gets_its_own_answer_or_error() -> None:
    def work(calls: Sequence[int]) -> list[int | Exception]:
        return [ValueError(call) if call == 2 else call for call in calls]

    async def run() -> list[int | BaseException]:
        gathering = Batcher(work, "test")
        return await asyncio.gather(*(gathering.submit(call) for call in (1, 2, 3)), return_exceptions=True)

    one, two, three = asyncio.run(run())
    assert (one, three) == (1, 3)
    assert isinstance(two, ValueError)


def test_failed_batch_fails_all_its_calls_but_not_the_next_batch() -> None:
    def work(calls: Sequence[int]) -> list[int | Exception]:
        return [10 // call for call in calls]

    async def run() -> int:
        gathering = Batcher(work, "test")
        with pytest.raises(ZeroDivisionError):
            await gathering.submit(0)
        return await gathering.submit(5)

    assert asyncio.run(run()) == 2


def test_cancelled_call_does_not_affect_its_batch() -> None:
    go_on = threading.Event()

    def work(calls: Sequence[int]) -> list[int | Exception]:
        assert go_on.wait(60)
        return list(calls)

    async def run() -> int:
        gathering = Batcher(work, "test")
        gone = asyncio.create_task(gathering.submit(1))
        await asyncio.sleep(0)
        gone.cancel()
        stays = asyncio.create_task(gathering.submit(2))
        await asyncio.sleep(0)
        go_on.set()
        return await stays

    assert asyncio.run(run()) == 2

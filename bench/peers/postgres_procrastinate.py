"""Procrastinate on psycopg 3, the connector its documentation recommends for workers."""

import asyncio
import time
from collections.abc import Callable

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

NAME = "Procrastinate"
CHOICES = (1, 10)
"""Its `concurrency`."""


def settings(choice: int) -> str:
    return f"PsycopgConnector, concurrency={choice}, delete_jobs=never (its defaults otherwise); bulk by batch_defer"


def setup(url: str) -> None:
    app = App(connector=SyncPsycopgConnector(conninfo=url))
    with app.open():
        app.schema_manager.apply_schema()


class Submitter:
    """One process that defers."""

    def __init__(self, url: str) -> None:
        self._app = App(connector=SyncPsycopgConnector(conninfo=url))
        self._task = self._app.task(name="noop", pass_context=False)(lambda **_: None)
        self._app.open()

    def singles(self, payloads: list[str]) -> None:
        for payload in payloads:
            self._task.defer(payload=payload)

    def bulk(self, payloads: list[str]) -> None:
        self._task.batch_defer(*[{"payload": payload} for payload in payloads])

    def close(self) -> None:
        self._app.close()


def drain(url: str, choice: int, on_ready: Callable[[], object]) -> int:
    """Run its own worker until nothing is left; how many."""
    app, done = App(connector=PsycopgConnector(conninfo=url, max_size=choice + 4)), 0

    @app.task(name="noop")
    async def noop(payload: str) -> None:
        nonlocal done
        del payload
        done += 1

    async def work() -> None:
        async with app.open_async():
            on_ready()
            await app.run_worker_async(
                wait=False, concurrency=choice, install_signal_handlers=False, listen_notify=False
            )

    asyncio.run(work())
    return done


def serve(url: str, on_started: Callable[[str, float], object], on_ready: Callable[[], object]) -> None:
    app = App(connector=PsycopgConnector(conninfo=url))
    over = asyncio.Event()

    @app.task(name="noop")
    async def noop(payload: str) -> None:
        on_started(payload, time.monotonic())
        if payload == "over":
            over.set()

    async def work() -> None:
        async with app.open_async():
            worker = asyncio.create_task(app.run_worker_async(install_signal_handlers=False))
            await asyncio.sleep(1.0)
            on_ready()
            await over.wait()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    asyncio.run(work())

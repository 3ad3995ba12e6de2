"""A store that is open several times at once, in one process or in several: each call goes through one of the openings.

`MultiClientStore.use` chooses the opening that takes the calls that follow; the state machine draws it.
"""

import atexit
import copyreg
import functools
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from inturn.clock import Clock, ManualClock
from inturn.errors import InturnError
from inturn.store import Store
from inturn.stores import open_store

PROCESS_COUNT = 3


def read_only(mapping: dict[str, Any]) -> MappingProxyType[str, Any]:
    return MappingProxyType(mapping)


copyreg.pickle(MappingProxyType, lambda mapping: (read_only, (dict(mapping),)))


class MultiClientStore:
    """Several openings of one store; `after_close` removes what they shared."""

    def __init__(self, clients: Sequence[Any], after_close: Callable[[], None]) -> None:
        self._clients = clients
        self._after_close = after_close
        self._current = 0

    def use(self, client: int) -> None:
        self._current = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients[self._current], name)

    def close(self) -> None:
        for opening in self._clients:
            opening.close()
        self._after_close()


class RemoteStore:
    """A store that a child process holds open. The child's clock shows what ours shows at each call."""

    def __init__(self, process: "StoreProcess", url: str, clock: Clock) -> None:
        self._process = process
        self._clock = clock
        process.call("open", clock.now(), (url,), {})

    def __getattr__(self, name: str) -> Any:
        if name == "history":
            return RemoteHistory(self._call)
        return functools.partial(self._call, name)

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._process.call(name, self._clock.now(), args, kwargs)


class RemoteHistory:
    """The history of a store that a child process holds open."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(self._call, f"history.{name}")


class StoreProcess:
    """A process that opens one store after another."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def call(self, name: str, at: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._pipe.send((name, at, args, kwargs))
        is_error, answer = self._pipe.recv()
        if is_error:
            raise answer
        return answer

    def stop(self) -> None:
        self._pipe.close()
        self._process.join()


@functools.cache
def store_processes() -> list[StoreProcess]:
    """The processes of this test run, started once: a start takes longer than a run of the state machine."""
    started = [StoreProcess() for _ in range(PROCESS_COUNT)]
    for child in started:
        atexit.register(child.stop)
    return started


def open_in_processes(url: str, clock: ManualClock, after_close: Callable[[], None]) -> MultiClientStore:
    """The store of this URL, open in every child."""
    return MultiClientStore([RemoteStore(child, url, clock) for child in store_processes()], after_close)


def _serve(pipe: Connection) -> None:
    clock = ManualClock(0)
    store: Store | None = None
    while True:
        try:
            name, at, args, kwargs = pipe.recv()
        except EOFError:
            return
        clock.advance(at - clock.now())
        try:
            if name == "open":
                store, answer = open_store(*args, clock), None
            else:
                answer = attrgetter(name)(store)(*args, **kwargs)
        except InturnError as refused:
            pipe.send((True, refused))
        except Exception as error:  # noqa: BLE001 - the test fails of it, with the child's words
            pipe.send((True, AssertionError(repr(error))))
        else:
            pipe.send((False, answer))

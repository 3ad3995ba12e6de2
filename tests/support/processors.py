"""Processors for the worker's tests. What each does with a document stands in the document's metadata, under `do`."""

import asyncio
import ctypes
import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from inturn.processor_api import OpenDocument, Reject, Result, Retry
from inturn.worker.invoke import runs_in

TIMEOUT_SECONDS = 50.0
"""Seconds after which a processor gives up what it waits for; nothing is measured by it."""
THREAD_BARRIERS: dict[int, threading.Barrier] = {}
TASK_BARRIERS: dict[int, asyncio.Barrier] = {}


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("what this processor waits for does not happen")
        time.sleep(0.005)


def count_files(folder: str, pattern: str = "*") -> int:
    return sum(1 for _ in Path(folder).glob(pattern))


def touch_marker(document: OpenDocument, label: str) -> Path:
    """Leave a sign that the test can see."""
    path = Path(document.metadata["place"]) / f"{label}-{document.id}-{document.attempt}"
    path.touch()
    return path


# -- results --------------------------------------------------------------------------------------------------------


def echo(document: OpenDocument) -> Any:
    given = {name: getattr(document, name) for name in ("id", "customer", "name", "media_type", "size", "uri")}
    return {**given, "attempt": document.attempt, "metadata": dict(document.metadata), "pid": os.getpid()}


def value(document: OpenDocument) -> Any:
    return document.metadata["value"]


def repeat(document: OpenDocument) -> Any:
    return document.metadata["text"] * document.metadata["times"]


def surrogate(_: OpenDocument) -> Any:
    return {"name": os.fsdecode(b"caf\xe9")}


def deep(document: OpenDocument) -> Any:
    """As deep as JSON can be written here, which is deeper than it can be read where the stack is higher."""
    levels: Any = []
    for _ in range(document.metadata["levels"]):
        levels = [levels]
    return levels


def no_json(document: OpenDocument) -> Any:
    return {"set": {1, 2}, "nan": float("nan"), "bytes": b"x", "decimal": Decimal(1)}[document.metadata["kind"]]


def files(document: OpenDocument) -> Any:
    place = Path(document.metadata["place"]) / "made by the processor.bin"
    place.write_bytes(bytes(range(256)) * 2_000)
    return Result({"pages": 2}, {"page 1.txt": "é".encode() * 10, "page 2.bin": place, "empty": b""})


def own_bytes(document: OpenDocument) -> Any:
    """The document itself as a file of its result."""
    return Result(None, {"copy": document.path()})


def make_files(document: OpenDocument) -> Any:
    """Files of these sizes."""
    return Result(None, {name: b"x" * size for name, size in document.metadata["files"].items()})


def bad_files(document: OpenDocument) -> Any:
    kinds: dict[str, Any] = {
        "missing": {"a": Path("/nonexistent/a")},
        "text": {"a": "text"},
        "control": {"a\nb": b"x"},
        "empty name": {"": b"x"},
        "result.json": {"result.json": b"x", "b": b"y"},
    }
    return Result("x" * 300_000, kinds[document.metadata["kind"]])


def read(document: OpenDocument) -> Any:
    with document.open() as first, document.open() as second:
        seen = [first.read(), second.read()]
    seen.append(document.path().read_bytes())
    return [hashlib.sha256(content).hexdigest() for content in seen]


def read_once(document: OpenDocument) -> Any:
    with document.open() as file:
        return file.read().decode()


def shout(document: OpenDocument) -> Any:
    """Print what a hostile document would like to stand in the worker's log."""
    for text in document.metadata["texts"]:
        sys.stdout.write(text * document.metadata.get("times", 1))
    if document.metadata.get("flushes"):
        sys.stdout.flush()
    sys.stderr.write("and an error\n")


def nest(_: OpenDocument) -> Any:
    """Make folders in folders, deeper than any stack."""
    for _ in range(5_000):
        Path("d").mkdir()
        os.chdir("d")


def never_begin(document: OpenDocument) -> Any:
    """End this one for the worker, then take the next and say nothing."""
    with open_channel() as line:
        number = document.number  # type: ignore[attr-defined]
        line.sendall(f'=null\n["done", {number}, 0.0, "", []]\n'.encode())
    touch_marker(document, "silent")
    while True:
        time.sleep(3_600)


# -- what is raised -------------------------------------------------------------------------------------------------


def retry(document: OpenDocument) -> Any:
    if document.attempt < document.metadata["until"]:
        raise Retry("not yet", after=document.metadata.get("after"))
    return document.attempt


def retry_oddly(document: OpenDocument) -> Any:
    after: dict[str, Any] = {"text": "soon", "huge": 1e300, "negative": -5.0, "list": [1], "infinite": float("inf")}
    raise Retry("odd", after=after[document.metadata["after"]])


def reject(document: OpenDocument) -> Any:
    raise Reject(document.metadata.get("reason", "no good"))


def fail(document: OpenDocument) -> Any:
    raise LookupError(document.metadata.get("message", "no such page"))


def fail_oddly(_: OpenDocument) -> Any:
    raise LookupError(f"no such file: {os.fsdecode(b'caf' + bytes([0xE9]))}")


# -- ends -----------------------------------------------------------------------------------------------------------


def fail_slowly(_: OpenDocument) -> Any:
    time.sleep(0.01)
    raise RuntimeError("the new model is slow and wrong")


def write_much(document: OpenDocument) -> Any:
    """Fill the folder with files, then go on for ever."""
    folder = Path(document.path()).parent
    for n in range(document.metadata["files"]):
        Path(folder, f"much-{n}").write_bytes(b"x" * document.metadata["size"])
    time.sleep(3_600)


def talk_long(_: OpenDocument) -> Any:
    return "x" * (65 << 20)


def sleep(document: OpenDocument) -> Any:
    touch_marker(document, "begun")
    while True:
        time.sleep(3_600)


def spin(_: OpenDocument) -> Any:
    while True:
        pass


def leave(_: OpenDocument) -> Any:
    sys.exit(3)


def leave_now(_: OpenDocument) -> Any:
    os._exit(0)


def crash(_: OpenDocument) -> Any:
    ctypes.string_at(1)


def kill_itself(_: OpenDocument) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def eat(_: OpenDocument) -> Any:
    """Far more than its box holds, and no more than the machine does if the box should not hold."""
    return len([bytearray(16 << 20) for _ in range(128)])


def stay(_: OpenDocument) -> Any:
    """Leave a thread behind that keeps the process from ending by itself."""
    threading.Thread(target=time.sleep, args=(3_600,)).start()
    return os.getpid()


def grow(_: OpenDocument) -> Any:
    """Hold on to a few megabytes."""
    THREAD_BARRIERS.setdefault(id(stored := bytearray(8 << 20)), stored)  # type: ignore[arg-type]  # just to keep it
    stored[::4_096] = b"x" * len(stored[::4_096])
    return os.getpid()


# -- together -------------------------------------------------------------------------------------------------------


def meet(document: OpenDocument) -> Any:
    """Return when n have begun: that is only possible if they run at once."""
    touch_marker(document, "met")
    wait_for(lambda: count_files(document.metadata["place"], "met-*") >= document.metadata["n"])
    return os.getpid()


def wait(document: OpenDocument) -> Any:
    """Until there are n signs of a kind."""
    touch_marker(document, "begun")
    pattern = document.metadata["sign"].replace("ATTEMPT", str(document.attempt))
    wait_for(lambda: count_files(document.metadata["place"], pattern) >= document.metadata.get("n", 1))
    touch_marker(document, "ended")
    return document.attempt


def sign(document: OpenDocument) -> Any:
    touch_marker(document, "signed")


def overlap(document: OpenDocument) -> Any:
    """Write down when it comes and goes."""
    log = os.open(document.metadata["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(log, b"+")
        time.sleep(document.metadata["seconds"])
        os.write(log, b"-")
    finally:
        os.close(log)
    return os.getpid()


def progress(document: OpenDocument) -> Any:
    document.progress(3, 10)
    return wait(document)


def watch(document: OpenDocument) -> Any:
    """Until it is cancelled."""
    touch_marker(document, "begun")
    wait_for(lambda: document.cancelled)
    touch_marker(document, "noticed")


def block(document: OpenDocument) -> Any:
    """Deaf until there is a sign."""
    return wait(document)


# -- a child in hostile hands ---------------------------------------------------------------------------------------


def open_channel() -> socket.socket:
    return socket.socket(fileno=os.dup(int(sys.argv[1])))


def talk_nonsense(document: OpenDocument) -> Any:
    """Say something else to the worker than it expects."""
    with open_channel() as line:
        line.sendall(document.metadata["line"].encode() + b"\n")


def talk_deep(_: OpenDocument) -> Any:
    with open_channel() as line:
        line.sendall(b"[" * 200_000 + b"]" * 200_000 + b"\n")


def send_descriptors(_: OpenDocument) -> Any:
    with open_channel() as line:
        for _ in range(10):
            socket.send_fds(line, [json.dumps(["begun", -1]).encode() + b"\n"], [2] * 50)
    return None


def rest(document: OpenDocument) -> Any:
    """Take so many seconds, then fail if the metadata says so."""
    time.sleep(document.metadata["seconds"])
    if document.metadata.get("fails"):
        raise ValueError("it was too much")


def act(document: OpenDocument) -> Any:
    """What the metadata says."""
    return globals()[document.metadata["do"]](document)


# -- elsewhere than in a process each -------------------------------------------------------------------------------


@runs_in("threads")
def act_in_threads(document: OpenDocument) -> Any:
    if document.metadata["do"] == "meet":
        n = document.metadata["n"]
        THREAD_BARRIERS.setdefault(n, threading.Barrier(n)).wait(TIMEOUT_SECONDS)
        return os.getpid()
    return act(document)


async def act_in_loop(document: OpenDocument) -> Any:
    do = document.metadata["do"]
    if do == "meet":
        n = document.metadata["n"]
        await asyncio.wait_for(TASK_BARRIERS.setdefault(n, asyncio.Barrier(n)).wait(), TIMEOUT_SECONDS)
        return os.getpid()
    if do == "watch":
        try:
            touch_marker(document, "begun")
            await asyncio.sleep(TIMEOUT_SECONDS)
        finally:
            touch_marker(document, "noticed")
    if do == "overlap":
        log = os.open(document.metadata["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(log, b"+")
        await asyncio.sleep(document.metadata["seconds"])
        os.write(log, b"-")
        os.close(log)
        return os.getpid()
    return act(document)


class Awaited:
    """A processor may be an object too."""

    async def __call__(self, document: OpenDocument) -> Any:
        await asyncio.sleep(0)
        return document.name


called = Awaited()
not_callable = 3


# -- queues ---------------------------------------------------------------------------------------------------------


def queue_name(document: OpenDocument) -> Any:
    return document.queue


def own_name(document: OpenDocument) -> Any:
    return document.name


async def name_in_loop(document: OpenDocument) -> Any:
    return document.queue

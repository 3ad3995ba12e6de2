"""Processors of documents that pass through steps: what they do stands in the name of the queue.

`act`, `act_in_threads` and `act_in_loop` do the same in the three ways to run.
"""

import asyncio
import hashlib
import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from inturn import NewDocument, Next, OpenDocument, Part, Parts, Reject, Result, processor, runs_in
from inturn.worker.questions import MAX_QUESTIONS
from inturn.worker.step_view import AskKind

THREADS = 2 * MAX_QUESTIONS
"""Threads of a processor that look back at once: more than may ask at once."""


def plain(document: OpenDocument) -> Any:
    return {"step": document.step, "queue": document.queue}


def named(document: OpenDocument) -> Any:
    """Go to the queue that the metadata names."""
    return Next(document.metadata["to"], {"text": "é\n"}, {"page.txt": b"page", "other.bin": bytes(5)})


def large(_: OpenDocument) -> Any:
    """A result that does not fit into its row."""
    return Result("x" * 300_000, {"a.txt": b"beside"})


def look(document: OpenDocument) -> Any:
    """What there is of earlier steps."""
    seen: dict[str, Any] = {"step": document.step, "queue": document.queue, "size": document.size}
    seen["results"] = {name: shorten(value) for name, value in document.results.items()}
    files = {name: document.result_files(name) for name in document.results}
    seen["opened"] = {
        name: {file.name: digest(file.open().read()) for file in own.values()} for name, own in files.items()
    }
    seen["copied"] = {
        name: {file.name: digest(file.path().read_bytes()) for file in own.values()} for name, own in files.items()
    }
    seen["parts"] = [
        [part.number, part.name, part.state, shorten(part.result), part.error, sorted(part.files)]
        for part in document.parts
    ]
    return seen


def look_in_threads(document: OpenDocument) -> Any:
    """The same from several threads at once."""
    seen: list[Any] = []
    threads = [threading.Thread(target=lambda: seen.append(look(document))) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == THREADS, seen
    assert all(other == seen[0] for other in seen)
    return seen[0]


def missing(document: OpenDocument) -> Any:
    return document.results["no-such-queue"]


def shorten(value: Any) -> Any:
    return f"{value[:1]} * {len(value)}" if isinstance(value, str) and len(value) > 1_000 else value


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def split(document: OpenDocument) -> Any:
    """Into as many parts as the metadata says, some with content of their own."""
    n, kind = document.metadata["n"], document.metadata.get("kind", "bytes")
    return Parts([part(document, number, kind) for number in range(n)], then="merge", steps=["page"], result={"n": n})


def part(document: OpenDocument, number: int, kind: str) -> Any:
    fields: dict[str, Any] = {"name": f"page {number + 1}", "metadata": {"number": number}, "pages": 1}
    match kind:
        case "bytes":
            return Part(content=b"page %d" % number, media_type="text/plain", **fields)
        case "path":
            path = Path(document.metadata.get("place", "."), f"left-{number}")
            path.write_bytes(b"page %d" % number)
            return Part(content=path, **fields)
        case "shared":
            return Part(**fields)
        case _:
            return NewDocument(f"page {number + 1}", metadata={"number": number})


def split_many(document: OpenDocument) -> Any:
    parts = [Part(str(number), metadata={"number": number}) for number in range(document.metadata["n"])]
    return Parts(parts, then="count-all", steps=["count"])


def page(document: OpenDocument) -> Any:
    with document.open() as file:
        text = file.read().decode()
    if document.metadata["number"] in document.metadata.get("torn", [3]):
        raise ValueError("torn")
    return Result({"text": text, "media_type": document.media_type, "size": document.size}, {"page.txt": text.encode()})


def count(document: OpenDocument) -> Any:
    return document.metadata["number"]


def merge(document: OpenDocument) -> Any:
    texts = [part.result["text"] for part in document.parts if part.state == "done"]
    files = [part.files["page.txt"].open().read().decode() for part in document.parts if part.files]
    return {
        "texts": texts,
        "files": files,
        "failed": [part.name for part in document.parts if part.error],
        "of": document.results["split"],
    }


def count_all(document: OpenDocument) -> Any:
    parts = document.parts
    assert [parts[-1].number, parts[0].number, len(parts[2:4])] == [len(parts), 1, 2]
    return {"parts": len(parts), "sum": sum(part.result for part in parts)}


BAD: dict[str, Any] = {
    "queue": lambda: Next("no queue"),
    "no text": lambda: Next(3),  # type: ignore[arg-type]
    "no list": lambda: Parts("abc", then="merge", steps=["page"]),  # type: ignore[arg-type]
    "no part": lambda: Parts([{"name": "a"}], then="merge", steps=["page"]),  # type: ignore[list-item]
    "none": lambda: Parts([], then="merge", steps=["page"]),
    "too many": lambda: Parts([Part("a")] * 10_001, then="merge", steps=["page"]),
    "no steps": lambda: Parts([Part("a")], then="merge"),
    "text steps": lambda: Parts([Part("a")], then="merge", steps="page"),
    "then": lambda: Parts([Part("a")], then="", steps=["page"]),
    "name": lambda: Parts([Part("a\n")], then="merge", steps=["page"]),
    "metadata": lambda: Parts([Part("a", metadata={"x": "y" * 20_000})], then="merge", steps=["page"]),
    "pages": lambda: Parts([Part("a", pages=-1)], then="merge", steps=["page"]),
    "media type": lambda: Parts([Part("a", b"", media_type="a\n")], then="merge", steps=["page"]),
    "content": lambda: Parts([Part("a", "text")], then="merge", steps=["page"]),  # type: ignore[arg-type]
    "content file": lambda: Parts([Part("a", Path("/nonexistent"))], then="merge", steps=["page"]),
    "result": lambda: Next("merge", {1, 2}),
    "file": lambda: Next("merge", None, {"a": "text"}),  # type: ignore[dict-item]
    "document": lambda: Parts([NewDocument("a")], then="merge", steps=["page"]),
}
"""What a processor should not return."""


def bad(document: OpenDocument) -> Any:
    return BAD[document.metadata["kind"]]()


def forge(document: OpenDocument) -> Any:
    """Leave files, and tell the worker of them past our own code."""
    for name, (text, times) in document.metadata.get("files", {}).items():
        Path(name).write_text(text * times, encoding="utf-8")
    for name, target in document.metadata.get("links", {}).items():
        Path(name).symlink_to(target)
    for name in document.metadata.get("pipes", []):
        os.mkfifo(name)
    message = [document.number if word == "NUMBER" else word for word in document.metadata["message"]]  # type: ignore[attr-defined]
    line = b"=null\n" * (message[0] != "ask") + json.dumps(message).encode() + b"\n"
    with socket.socket(fileno=os.dup(int(sys.argv[1]))) as channel:
        channel.sendall(line * document.metadata.get("times", 1))


def ask_around(document: OpenDocument) -> Any:
    """Ask for what is not this document's."""
    seen = []
    for kind, number, name in (
        (AskKind.STEP_FILE, 1, "page.txt"),
        (AskKind.STEP_FILE, 0, "../page.txt"),
        (AskKind.PART_FILE, 1, "page.txt"),
        (AskKind.PART_FILE, -1, None),
    ):
        try:
            document._child.ask(document.number, kind, number, name)  # type: ignore[attr-defined]  # noqa: SLF001
        except Reject as error:
            seen.append(str(error).partition(":")[0])
    return seen


def act(document: OpenDocument) -> Any:
    return globals()[document.queue.replace("-", "_")](document)


@runs_in("threads")
def act_in_threads(document: OpenDocument) -> Any:
    return act(document)


async def act_in_loop(document: OpenDocument) -> Any:
    if document.queue == "look-in-threads":
        return await asyncio.to_thread(look_in_threads, document)
    return act(document)


def walk(document: OpenDocument) -> Any:
    """Go by the plan in the metadata: `next QUEUE` or `split QUEUE N` for each step but the last."""
    for queue in document.results:
        name, file = next(iter(document.result_files(queue).items()))
        assert name == f"from {file.open().read().decode()}"
    number, plan = document.metadata.get("part"), document.metadata.get("plan", [])
    result = {"step": document.step, "part": number, "parts": [part.result["part"] for part in document.parts]}
    files = {f"from {document.step}": b"%d" % document.step}
    if document.step >= len(plan):
        return Result(result, files)
    word, queue, *n = plan[document.step].split()
    if word == "next":
        return Next(queue, result, files)
    parts = [Part(str(part), b"%d" % part, {"part": part}) for part in range(int(n[0]))]
    return Parts(parts, then=queue, steps=["b", "c"], result=result, files=files)


# -- a module given once --------------------------------------------------------------------------------------------


@processor(queue="read", timeout="90s", retries=0)
def read_marked(document: OpenDocument) -> Any:
    if document.metadata.get("fails"):
        raise ValueError("torn")
    return Next("write", document.queue)


@processor(queue="write", timeout=0.5)
@processor(queue="write-again")
def write_marked(document: OpenDocument) -> Any:
    if document.metadata.get("sleeps"):
        threading.Event().wait()
    return [document.queue, dict(document.results)]

"""The work that every side does with a document: nothing, or a sleep; and a line in a log, if it is asked for."""

import json
import os
import time
from collections.abc import Mapping
from typing import Any

PAYLOAD_BYTES = 200


def payload(name: str, customer: str, *, sleep: float = 0.0, log: str = "") -> dict[str, Any]:
    """A document's argument: JSON of about 200 bytes that carries what the handler needs, whatever runs it."""
    given = {"name": name, "customer": customer, "sleep": sleep, "log": log, "text": ""}
    return {**given, "text": "x" * max(0, PAYLOAD_BYTES - len(json.dumps(given)))}


def handle(document: Mapping[str, Any]) -> dict[str, Any]:
    """Sleep, then log the name and when it began: a run that is killed before its end leaves no line."""
    began = time.monotonic()
    if document["sleep"]:
        time.sleep(document["sleep"])
    if document["log"]:
        _append(document["log"], f"{document['name']} {began:.6f}\n")
    return {"name": document["name"], "pages": 3}


def _append(path: str, line: str) -> None:
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(log, line.encode())
        os.fsync(log)
    finally:
        os.close(log)

"""What Inturn's workers import."""

from typing import Any

from bench.peers.handler import handle
from inturn.processor_api import OpenDocument


def process(document: OpenDocument) -> dict[str, Any]:
    return handle(document.metadata)

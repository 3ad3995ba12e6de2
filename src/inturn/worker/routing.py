"""Several processors in one worker: each document goes to the processor of its queue.

A child gets all of them as one text, `queue=module:function` with commas between, or the path of a single processor.
"""

from collections.abc import Callable, Mapping
from typing import Any

from inturn.config import DEFAULT_PROCESSOR
from inturn.errors import InvalidInputError
from inturn.processor_api import OpenDocument
from inturn.worker.invoke import MODE_ATTRIBUTE, Processor, execution_mode, load_processor


def processor_spec(queues: Mapping[str, str | None], processor: str) -> str:
    """Return what a child loads: one processor, or one for each queue."""
    if not any(queues.values()):
        return processor
    return ",".join(f"{name}={path or processor}" for name, path in queues.items())


def processor_paths(spec: str) -> dict[str | None, str]:
    """Return the paths of processors by queue; None for a single one, which processes the documents of any queue."""
    if "=" not in spec:
        return {None: spec}
    parts = (part.partition("=") for part in spec.split(","))
    return {name: path for name, _, path in parts}


def load_processors(spec: str, load: Callable[[str], Processor] = load_processor) -> Processor:
    """Import the processor, or all of them."""
    paths = processor_paths(spec)
    if None in paths:
        return load(spec)
    return RoutedProcessor({name: load(path) for name, path in paths.items() if name is not None})


def require_one_sandbox(spec: str) -> None:
    """Refuse the built-in processor, which has a sandbox, beside others in a worker that has none."""
    paths = set(processor_paths(spec).values())
    if DEFAULT_PROCESSOR in paths and len(paths) > 1:
        raise InvalidInputError(
            "the built-in processor runs in a sandbox and your own does not: start a worker for each, or confine both"
            " with --sandbox"
        )


class RoutedProcessor:
    """Calls the processor of a document's queue."""

    def __init__(self, processors: Mapping[str, Processor]) -> None:
        self._processors = processors
        modes = {execution_mode(processor): name for name, processor in processors.items()}
        if len(modes) > 1:
            raise InvalidInputError(
                "the processors of one worker run in one way: "
                + ", ".join(f"that of {name} in {mode}" for mode, name in modes.items())
                + "; start a worker for each"
            )
        setattr(self, MODE_ATTRIBUTE, next(iter(modes)))

    def __call__(self, document: OpenDocument) -> Any:
        """Process a document, or return what awaits its processing."""
        return self._processors[document.queue](document)

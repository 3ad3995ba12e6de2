"""Documents with steps, and workers that run `step_processors`."""

from typing import Any

from inturn.blobs import Blob
from inturn.model import NewDocument
from inturn.sandbox.confinement import SandboxLimits
from inturn.worker.worker import OutcomeCounts
from worker_harness import TEST_OPERATOR, WorkerHarness

BOX = SandboxLimits(wall_seconds=30.0)
PROCESSORS = ("step_processors:act", "step_processors:act_in_threads", "step_processors:act_in_loop")
WAYS = [*((processor, None) for processor in PROCESSORS), (PROCESSORS[0], BOX)]
QUEUES = ("plain", "named", "large", "look", "look-in-threads", "missing", "split", "page", "merge", "bad", "forge")


def submit(harness: WorkerHarness, *steps: str, content: bytes | None = None, **metadata: Any) -> str:
    fields: dict[str, Any] = {}
    if content is not None:
        with harness.blobs.begin() as writing:
            writing.write(content)
            blob: Blob = writing.commit()
        fields.update(blob=blob.key, sha256=blob.sha256, size=blob.size)
    document = NewDocument("a document", steps=steps, max_attempts=1, metadata=metadata, **fields)
    return harness.queue.submit("acme", [document])[0].id


def run(harness: WorkerHarness, processor: str = PROCESSORS[0], *queues: str, **options: Any) -> OutcomeCounts:
    return harness.run_until_empty(processor, queues=dict.fromkeys(queues or QUEUES), **options)


def make_queues(harness: WorkerHarness, *names: str) -> None:
    for name in names:
        harness.queue.change_queue(name, TEST_OPERATOR)

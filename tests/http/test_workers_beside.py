"""Workers of `inturn serve --workers`: they end with their server, however it ends."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import inturn
from http_server import ServerProcess
from inturn.model import DocumentState
from waiting import wait_until

SLOW = """
import pathlib, time

def process(document):
    pathlib.Path(f"begun-{document.name}").touch()
    for _ in range(3_000):
        if pathlib.Path("go-on").exists():
            return {"by": "hand"}
        time.sleep(0.02)
"""


@pytest.fixture
def leftovers() -> Iterator[set[int]]:
    """Processes that must not outlive a test, whatever comes of it."""
    known: set[int] = set()
    yield known
    for pid in known:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def workers(server: ServerProcess, n: int) -> set[int]:
    """The processes of the workers, once there are so many."""
    with server.client() as client:

        def listed() -> set[int]:
            return {item["process"] for item in client.get("/v1/workers").json()["workers"]}

        wait_until(lambda: len(listed()) == n, message=listed)
        return listed()


def ended(pids: set[int]) -> bool:
    """Whether all these processes have ended before long; one that nobody has waited for yet has ended too."""
    wait_until(lambda: all(_state(pid) in {None, "Z"} for pid in pids))
    return True


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_restarted_server_has_only_its_own_workers(serve: Callable[..., ServerProcess], leftovers: set[int]) -> None:
    first = serve("--workers", "1", alone=True)
    old = workers(first, 1)
    leftovers |= old
    first.process.kill()
    assert ended(old)
    second = serve("--workers", "1", alone=True)
    assert workers(second, 1).isdisjoint(old)


def test_workers_of_a_killed_server_finish_running_and_release_prefetched(
    serve: Callable[..., ServerProcess], tmp_path: Path, leftovers: set[int]
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    flags = ("--workers", "1", "--slots", "1", "--processor", "slow:process", "--lease", "3000")
    server = serve(*flags, alone=True, PYTHONPATH=os.pathsep.join([str(tmp_path), *_path()]))
    (pid,) = workers(server, 1)
    leftovers.add(pid)
    with server.client() as client:
        body = {"customer": "acme", "documents": [{"name": str(number)} for number in range(3)]}
        ids = [item["id"] for item in client.post("/v1/documents", json=body).json()["receipts"]]
    wait_until((tmp_path / "begun-0").exists)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(60)
    with inturn.open(str(tmp_path / "inturn.db")) as queue:
        wait_until(lambda: all(queue.document(item).state is DocumentState.WAITING for item in ids[1:]))
        states = [queue.document(item).state for item in ids]
        assert states == [DocumentState.RUNNING, DocumentState.WAITING, DocumentState.WAITING]
        (tmp_path / "go-on").touch()
        assert ended({pid})
        assert [queue.document(item).state for item in ids] == [DocumentState.DONE, *states[1:]]
        assert queue.result(ids[0]) == {"by": "hand"}
        assert queue.store.workers() == ()


def _path() -> list[str]:
    return [str(Path(inturn.__file__).parents[1])]

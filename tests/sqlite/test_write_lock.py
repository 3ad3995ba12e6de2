"""The lock between processes that write: whoever has waited too long for it leaves nothing behind."""

import fcntl
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from inturn.stores.sqlite.write_lock import EXCLUSIVE_NONBLOCKING, WriteLock, _Acquisition
from waiting import wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db-gate"


@pytest.fixture
def impatient(path: Path) -> Iterator[WriteLock]:
    lock = WriteLock(path, timeout=0.05)
    yield lock
    lock.close()


def is_free(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, EXCLUSIVE_NONBLOCKING)
        except BlockingIOError:
            return False
    return True


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each caller that the lock was handed over to still waited for it."""
    hand_over: Callable[[_Acquisition], bool] = _Acquisition.hand_over
    recorded: list[bool] = []

    def record(acquisition: _Acquisition) -> bool:
        recorded.append(hand_over(acquisition))
        return recorded[-1]

    monkeypatch.setattr(_Acquisition, "hand_over", record)
    return recorded


def test_lock_that_came_too_late_is_given_back(path: Path, impatient: WriteLock, answers: list[bool]) -> None:
    with path.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        for _ in range(2):
            with pytest.raises(apsw.BusyError):
                impatient.acquire()
    wait_until(lambda: len(answers) == 2)
    assert answers == [False, False]
    wait_until(lambda: is_free(path))
    impatient.acquire()
    assert not is_free(path)
    impatient.release()
    assert is_free(path)


def test_lock_that_a_ctrl_c_no_longer_waits_for_is_given_back(path: Path, answers: list[bool]) -> None:
    lock = WriteLock(path)
    interrupt = threading.Timer(0.1, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    with path.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            lock.acquire()
    wait_until(lambda: answers)
    assert answers == [False]
    wait_until(lambda: is_free(path))
    lock.close()


def test_lock_that_was_handed_over_just_when_the_time_was_up_is_had() -> None:
    acquisition = _Acquisition()

    class Late:
        """Handed over between the end of the wait and what follows."""

        def acquire(self, *, timeout: float) -> bool:
            del timeout
            acquisition._handed_over = handed_over  # noqa: SLF001 - as below
            assert acquisition.hand_over()
            return False

    handed_over = acquisition._handed_over  # noqa: SLF001 - nothing else comes between the end of a wait and the look
    acquisition._handed_over = Late()  # type: ignore[assignment]  # noqa: SLF001 - as above
    assert acquisition.wait(0)


def test_lock_is_not_handed_over_to_one_whose_time_was_up() -> None:
    acquisition = _Acquisition()
    assert not acquisition.wait(0)
    assert not acquisition.hand_over()

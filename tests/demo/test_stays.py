"""The demo in a terminal: the page is up from the beginning, stays, and ends with a Ctrl-C."""

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from .test_demo import left_behind

TIMEOUT_SECONDS = 120
ADDRESS = re.compile(r"the page: (http://127\.0\.0\.1:\d+)")


class Terminal:
    """A demo that believes to have a person before it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._keyboard, screen = pty.openpty()
        temporary = folder / "tmp"
        temporary.mkdir()
        path = os.pathsep.join(filter(None, sys.path))
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "demo", "--chart", str(folder / "waits.svg"), *options],
            stdin=screen,
            stdout=screen,
            stderr=screen,
            env={
                **os.environ,
                "PYTHONPATH": path,
                "TMPDIR": str(temporary),
                "TERM": "xterm",
                "COLUMNS": "120",
                "PYTHONFAULTHANDLER": "1",
            },
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - a Ctrl-C must reach it
        )
        os.close(screen)
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def said(self) -> str:
        return "".join(self._said)

    def wait_for(self, words: str) -> str:
        until = time.monotonic() + TIMEOUT_SECONDS
        while words not in self.said:
            assert time.monotonic() < until, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.02)
        return self.said

    def press(self, key: bytes) -> None:
        os.write(self._keyboard, key)

    def end_status(self) -> int:
        """Wait for the end; if it does not come, fail with what every thread is doing."""
        try:
            return self.process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            self._reader.join()
            pytest.fail(f"the demo did not end:\n{self.said}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._keyboard)

    def _read(self) -> None:
        with suppress(OSError):  # the other end is closed
            while part := os.read(self._keyboard, 65_536):
                self._said.append(part.decode(errors="replace"))


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path, "--documents", "16")
    yield made
    made.close()


def test_the_page_is_up_at_once_stays_and_ends_with_a_ctrl_c(terminal: Terminal, tmp_path: Path) -> None:
    match = ADDRESS.search(terminal.wait_for("16 documents"))
    assert match is not None
    with httpx2.Client(base_url=match[1], timeout=TIMEOUT_SECONDS) as page:
        assert "Inturn" in page.get("/").text  # while the documents are being made
        terminal.wait_for("Ctrl-C ends them")
        done = page.get("/v1/documents", params={"state": "done", "limit": 100}).json()["documents"]
        assert len(done) == 16
        answer = page.post("/v1/documents", data={"customer": "me"}, files={"file": ("a.txt", b"Hello")})
        mine = answer.json()["receipts"][0]["id"]
        assert page.get(f"/v1/documents/{mine}", params={"wait": 60}).json()["state"] == "done"
    terminal.press(b"\x03")
    assert terminal.end_status() == 0
    assert "demo: ended" in terminal.said
    assert "Traceback" not in terminal.said
    assert left_behind(tmp_path / "tmp") == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_pause_at_the_page_only_holds_it_up(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--documents", "40")
    try:
        match = ADDRESS.search(terminal.wait_for("40 documents"))
        assert match is not None
        with httpx2.Client(base_url=match[1], timeout=TIMEOUT_SECONDS) as page:
            page.post("/v1/queue/pause", params={"why": "to look around"})
            terminal.wait_for("documents done")
            page.post("/v1/queue/resume")
            terminal.wait_for("Ctrl-C ends them")
        terminal.press(b"\x03")
        assert terminal.end_status() == 0
    finally:
        terminal.close()

"""`inturn serve` in a process of its own, and keys for it."""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2

import inturn as package
from empty_queue import empty_queue
from forked_cli import ForkedProcess
from inturn.api_keys import ApiKey, ApiKeyScope, generate_api_key
from inturn.store import Store
from inturn.store_types import Operator
from waiting import wait_until

ANNA = Operator("anna", "because the test says so")


def create_api_key(store: Store, name: str, customer: str | None = None, scope: ApiKeyScope | None = None) -> str:
    """A new key's text."""
    chosen = scope or (ApiKeyScope.OPERATOR if customer is None else ApiKeyScope.CUSTOMER)
    text, key = generate_api_key(ApiKey("", "", chosen, name, customer, time.time_ns() // 1_000))
    store.api_keys.add(key, ANNA)
    return text


class Ports:
    """Ports of servers that have stopped, for those that come after them.

    A browser keeps by address what it has loaded: a page of the next server at a port takes it half the CPU of one at a
    new port. A socket that is bound and does not listen holds each port: a server can have it, and no other program.
    """

    def __init__(self) -> None:
        self._holders: list[socket.socket] = []
        self._in_use: set[int] = set()

    def take(self) -> int:
        numbers = [int(holder.getsockname()[1]) for holder in self._holders]
        port = next((number for number in numbers if number not in self._in_use), None)
        if port is None:
            holder = socket.socket()
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            self._holders.append(holder)
            port = int(holder.getsockname()[1])
        self._in_use.add(port)
        return port

    def give_back(self, port: int) -> None:
        self._in_use.discard(port)


PORTS = Ports()


class ServerProcess:
    """`inturn serve`, as a person runs it if it is to be `alone`."""

    process: "ForkedProcess | subprocess.Popen[str]"

    def __init__(self, folder: Path, *flags: str, alone: bool = False, **environment: str) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self._port: queue.Queue[int | None] = queue.Queue()
        ours = {name: value for name, value in os.environ.items() if not name.startswith("INTURN_")}
        path = str(Path(package.__file__).parents[1])
        self._own_port = None if "--port" in flags else PORTS.take()
        command = ["serve", "--port", str(self._own_port or 0), "--json", *flags]
        ours |= {"PYTHONPATH": path} | environment
        if alone:
            program = [sys.executable, "-m", "inturn.cli", *command]
            self.process = subprocess.Popen(program, cwd=folder, env=ours, stderr=subprocess.PIPE, text=True)  # noqa: S603
        else:
            if not {"INTURN_STORE", "--store"} & {*environment, *flags} and not (folder / "inturn.db").exists():
                empty_queue(folder / "inturn.db")
            self.process = ForkedProcess(command, folder, ours)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        port = self._port.get(timeout=60)
        if port is None:
            self.process.wait(60)
            raise AssertionError(f"the server did not start: {self.log}")
        self.url = f"http://127.0.0.1:{port}"
        self._wait_until_up()

    @property
    def log(self) -> str:
        """All that it logged."""
        return "".join(self.lines)

    def client(self, key: str | None = None, **more: Any) -> httpx2.Client:
        """A client of its own."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        # To read the system's certificate authorities, whom nothing here needs, takes 20 ms of CPU.
        return httpx2.Client(base_url=self.url, headers=headers, timeout=60, verify=False, **more)

    def stop(self) -> int:
        """As an operator stops it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self._close()
        if self._own_port is not None:
            PORTS.give_back(self._own_port)
            self._own_port = None  # it may be another server's by the next call
        return code

    def kill(self) -> None:
        """As nobody should; workers beside it would go on."""
        self.process.kill()
        self.process.wait(60)
        self._close()

    def pss(self) -> int:
        """Bytes of memory that are its own."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return 1024 * next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))

    def _close(self) -> None:
        self._reader.join(60)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append(line)
            if '"listening on' in line:
                self._port.put(json.loads(line)["port"])
        self._port.put(None)

    def _wait_until_up(self) -> None:
        with self.client() as client:

            def answers() -> bool:
                try:
                    return client.get("/healthz").is_success
                except httpx2.TransportError:
                    return False

            wait_until(answers, message="the server does not answer")

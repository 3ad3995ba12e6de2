"""A check that was begun is one check, heard by whoever began it, whatever happens on the way."""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis as client

from inturn.counters import Counters, open_counters
from inturn.errors import InvalidInputError, StoreError
from inturn.policy import PriorityPolicy
from services import RedisServer, drop_schema, fresh_redis, needs_postgres, needs_redis, new_schema
from waiting import wait_until

BURST = [tuple(item) for item in PriorityPolicy().check_many(None, 0, 25).per_document()]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    own = RedisServer()
    own.start()
    yield own
    own.remove()


@pytest.fixture
def counters() -> Iterator[Counters]:
    with open_counters(fresh_redis()) as opened:
        yield opened


def test_it_is_the_policys_check_in_memory_and_in_a_file(tmp_path: Path) -> None:
    for url in ("memory://", str(tmp_path / "counters.db")):
        assert_is_the_policys(url)


@needs_postgres
def test_it_is_the_policys_check_on_postgresql() -> None:
    url = new_schema()
    assert_is_the_policys(url)
    drop_schema(url)


@needs_redis
def test_it_is_the_policys_check_on_redis() -> None:
    assert_is_the_policys(fresh_redis())


def assert_is_the_policys(url: str) -> None:
    with open_counters(url) as counters:
        assert [tuple(counters.begin("acme")()) for _ in range(24)] == BURST[:24]
        assert tuple(counters.check("acme")[0]) == BURST[24]
        with pytest.raises(InvalidInputError, match="control characters"):
            counters.begin("a\nb")


@needs_redis
def test_a_cluster_is_asked_when_the_answer_is_wanted() -> None:
    node = RedisServer("--cluster-enabled", "yes")
    node.start()
    try:
        with client.Redis(port=node.port) as direct:
            direct.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        assert_is_the_policys(f"redis+cluster://127.0.0.1:{node.port}")
    finally:
        node.remove()


@needs_redis
def test_answers_are_heard_in_any_order(counters: Counters) -> None:
    for customer, n in (("few", 1), ("some", 10), ("many", 100)):
        counters.check(customer, n)
    few, some = counters.begin("few"), counters.begin("some")
    assert counters.check("many")[0].count == -100
    more = counters.begin("many")
    assert [received().count for received in (some, more, few)] == [-10, -101, -1]


@needs_redis
def test_an_answer_that_nobody_wants_is_given_to_nobody(server: RedisServer) -> None:
    with client.Redis(port=server.port) as direct, open_counters(server.url) as counters:
        counters.check("bulk", 20)
        gc.disable()  # connections are not left to it
        try:
            for _ in range(10):
                counters.begin("bulk")
            wait_until(lambda: len(direct.client_list()) == 1)
        finally:
            gc.enable()
        assert counters.check("acme")[0].count == 0
        assert counters.check("bulk")[0].count == -30


@needs_redis
def test_the_script_is_brought_when_the_server_does_not_know_it(server: RedisServer) -> None:
    with client.Redis(port=server.port) as direct, open_counters(server.url) as counters:
        counters.check("acme")
        direct.script_flush()
        forgotten = counters.begin("acme")
        assert (forgotten().count, counters.begin("acme")().count) == (-1, -2)


@needs_redis
def test_an_answer_that_comes_too_late_is_not_the_next_ones(server: RedisServer) -> None:
    with open_counters(f"{server.url}?socket_timeout=0.2") as counters:
        counters.check("bulk", 20)
        os.kill(server.pids[0], signal.SIGSTOP)
        late = counters.begin("bulk")
        with pytest.raises(StoreError, match="may have been counted"):
            late()
        os.kill(server.pids[0], signal.SIGCONT)
        assert [counters.check("acme")[0].count for _ in range(3)] == [0, -1, -2]
        assert counters.check("bulk")[0].count == -21


@needs_redis
def test_a_server_that_dies_between_is_an_error_and_the_next_one_is_found(server: RedisServer) -> None:
    with open_counters(server.url) as counters:
        for warm in [counters.begin("acme"), counters.begin("acme")]:  # with a connection each
            warm()
        os.kill(server.pids[0], signal.SIGSTOP)
        lost = [counters.begin("acme"), counters.begin("acme")]
        server.stop()
        for item in lost:
            with pytest.raises(StoreError, match="cannot be reached"):
                item()
        server.start(server.port)
        assert [counters.begin("acme")().count for _ in range(3)] == [0, -1, -2]


@needs_redis
def test_connection_that_the_server_closed_is_not_used(server: RedisServer) -> None:
    with open_counters(server.url) as counters:
        counters.check("acme", 5)
        server.stop()
        server.start(server.port)
        assert counters.begin("acme")().count == 0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers there is not Redis"),
        (b"-MISCONF Errors writing to the AOF file\r\n", "MISCONF Errors writing"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", "try again"),
    ],
    ids=["no Redis", "an error without a name here", "loading"],
)
def test_whatever_a_server_answers_is_an_error_of_ours(answer: bytes, said: str) -> None:
    def speak(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            while asked := connection.recv(65_536):
                if b"EVALSHA" in asked:
                    connection.sendall(answer)
                else:
                    empty = b"$-1\r\n" if b"GET" in asked else b"+OK\r\n"
                    connection.sendall(empty * asked.count(b"*"))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=speak, args=(listening,), daemon=True).start()
        with open_counters(f"redis://127.0.0.1:{listening.getsockname()[1]}?protocol=3") as counters:
            received = counters.begin("acme")
            with pytest.raises(StoreError, match=said):
                received()


@needs_redis
def test_threads_hear_their_own(counters: Counters) -> None:
    def work(number: int) -> list[tuple[str, int]]:
        names = ("acme", "beta") if number % 2 else ("beta", "acme")
        first, second = [counters.begin(name) for name in names]
        return [(names[1], second().count), (names[0], first().count)]

    with ThreadPoolExecutor(8) as pool:
        received = [item for pair in pool.map(work, range(400)) for item in pair]
    for name in ("acme", "beta"):
        assert sorted(-count for asked, count in received if asked == name) == list(range(400))


@needs_redis
def test_a_fork_between_leaves_the_answer_to_the_parent() -> None:
    script = """
import json, os, sys
from inturn import open_counters
counters = open_counters(sys.argv[1])
counters.check("bulk", 20)
begun = counters.begin("acme")
child = os.fork()
if child == 0:
    print(json.dumps([begun().count, counters.check("bulk")[0].count]), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps([begun().count, counters.check("acme")[0].count]))
"""
    command = [sys.executable, "-c", script, fresh_redis()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - our own
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[-1, -20], [0, -2]]

"""Counters on a real Redis: the policy to the microsecond, exact under many hands, and what is left when Redis goes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as client
from hypothesis import given, settings
from hypothesis import strategies as st

from inturn.counters import Counters, open_counters
from inturn.errors import InvalidInputError, StoreError, StoreFullError, StoreReadOnlyError
from inturn.policy import Counter, PriorityPolicy
from inturn.store_types import IDEMPOTENCY_KEY_RETENTION, Operator
from inturn.stores.redis.counters import COUNTER_RETENTION, MAX_LUA_INTEGER, key_prefix
from inturn.values import SECOND, seconds
from services import RedisServer, fresh_redis, needs_redis
from waiting import wait_until

pytestmark = needs_redis

ANNA = Operator("anna", "because the test says so")
POLICIES = [
    PriorityPolicy(),
    PriorityPolicy(1),
    PriorityPolicy(seconds(90), (-1,)),
    PriorityPolicy(100 * 365 * 86_400 * SECOND, (-3, -4, -400)),
]
CHECKS = """
import json, sys
from inturn import open_counters
counters = open_counters(sys.argv[1])
print(json.dumps([count for _ in range(int(sys.argv[2])) for _, count in counters.check("acme", 2)]))
"""


@pytest.fixture
def url() -> str:
    return fresh_redis()


@pytest.fixture
def counters(url: str) -> Iterator[Counters]:
    with open_counters(url) as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[RedisServer]:
    own = RedisServer()
    own.start()
    yield own
    own.remove()


def test_closing_disconnects(server: RedisServer) -> None:
    with client.Redis(port=server.port) as direct:
        counters = open_counters(server.url)
        unread = counters.begin("acme")
        assert len(direct.client_list()) == 2
        counters.close()
        wait_until(lambda: len(direct.client_list()) == 1)
    with pytest.raises(StoreError, match="may have been counted"):
        unread()


steps = st.tuples(
    st.sampled_from(POLICIES) | st.none(),
    st.integers(-3, 3).map(lambda by: by * seconds(45)) | st.sampled_from([0, 1, -1, seconds(1500), seconds(1500) + 1]),
    st.sampled_from([1, 2, 7, 30]),
)


@settings(max_examples=60)
@given(
    start=st.sampled_from([0, seconds(1_700_000_000), MAX_LUA_INTEGER - seconds(20_000)]),
    walk=st.lists(steps, max_size=12),
)
def test_whatever_comes_the_script_does_as_the_policy(start: int, walk: list[tuple[Any, int, int]]) -> None:
    policy, counter, now = PriorityPolicy(), None, start
    with open_counters(fresh_redis()) as counters:
        for other, by, n in walk:
            if other is not None:
                policy = other
                counters.set_policy(policy, ANNA)
            now = max(0, now + by)
            checked = policy.check_many(counter, now, n)
            assert [tuple(check) for check in counters.check("acme", n, now=now)] == list(checked.per_document())
            counter = checked.counter
            assert counters.counter("acme") == counter


def test_ten_thousand_at_once_are_as_many_checks(counters: Counters) -> None:
    expected = PriorityPolicy().check_many(None, 7, 10_000)
    assert [tuple(check) for check in counters.check("acme", 10_000, now=7)] == list(expected.per_document())


def test_the_clock_is_that_of_the_server(counters: Counters, url: str) -> None:
    with client.Redis.from_url(url) as direct:
        before = reported(direct)
        counters.check("acme")
        stored = counters.counter("acme")
        assert stored is not None
        assert before <= stored.updated_at <= reported(direct)


def reported(direct: Any) -> int:
    whole, micro = direct.time()
    return int(whole) * SECOND + int(micro)


def test_times_that_lua_cannot_count_are_refused(counters: Counters) -> None:
    with pytest.raises(InvalidInputError, match="2255"):
        counters.check("acme", now=MAX_LUA_INTEGER)
    assert counters.counter("acme") is None


def test_a_counter_is_kept_a_week_longer_than_its_interval(counters: Counters, url: str) -> None:
    with client.Redis.from_url(url) as direct:
        for policy in (PriorityPolicy(), PriorityPolicy(COUNTER_RETENTION * 3)):
            counters.set_policy(policy, ANNA)
            counters.check("acme")
            left = direct.pttl("inturn:{acme}:counter") * 1_000
            stored = policy.reset_interval + COUNTER_RETENTION
            assert stored - 600 * SECOND < left <= stored + 1_000


def test_a_counter_from_the_future_is_kept_from_its_own_time_on(counters: Counters, url: str) -> None:
    with client.Redis.from_url(url) as direct:
        ahead = reported(direct) + seconds(1200)
        counters.check("acme", now=ahead)
        counters.check("acme")
        assert counters.counter("acme") == Counter(-1, ahead)
        left = direct.pttl("inturn:{acme}:counter") * 1_000
        assert left > seconds(1500 + 600) + COUNTER_RETENTION


def test_a_counter_whose_time_was_given_does_not_expire_by_another_clock(counters: Counters, url: str) -> None:
    counters.check("acme")
    counters.check("acme", now=5)
    with client.Redis.from_url(url) as direct:
        assert direct.pttl("inturn:{acme}:counter") == -1


def test_an_expired_counter_and_one_that_is_reset_give_the_same(counters: Counters, url: str) -> None:
    with client.Redis.from_url(url) as direct:
        later = reported(direct) + seconds(1500) + COUNTER_RETENTION
        counters.check("gone", 30)
        counters.check("there", 30)
        direct.delete("inturn:{gone}:counter")
        assert counters.check("gone", 5, now=later) == counters.check("there", 5, now=later)
        assert counters.counter("gone") == counters.counter("there")


def test_keys_of_checks_expire_by_themselves(counters: Counters, url: str) -> None:
    counters.check("acme", key="k")
    with client.Redis.from_url(url) as direct:
        left = direct.pttl("inturn:{acme}:key:k") * 1_000
        assert IDEMPOTENCY_KEY_RETENTION - 600 * SECOND < left <= IDEMPOTENCY_KEY_RETENTION + 1_000
        assert sorted(direct.keys()) == [b"inturn:{acme}:counter", b"inturn:{acme}:key:k"]


@pytest.mark.parametrize("name", ["}", "{", "{}", "a}b{c", "%7D"])
def test_all_keys_of_a_customer_are_in_one_slot(name: str) -> None:
    keys = [f"{key_prefix(name)}:counter", f"{key_prefix(name)}:key:{{other}}"]
    assert len({client.crc.key_slot(key.encode()) for key in keys}) == 1
    assert key_prefix(name).count("{") == key_prefix(name).count("}") == 1


def test_a_cluster_runs_it() -> None:
    node = RedisServer("--cluster-enabled", "yes")
    node.start()
    try:
        with client.Redis(port=node.port) as direct:
            direct.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        with open_counters(f"redis+cluster://127.0.0.1:{node.port}") as counters:
            counters.set_policy(PriorityPolicy(thresholds=(-1, -2)), ANNA)
            for name in ("acme", "beta", "}", "{x}y"):
                assert counters.check(name, 4, key="{k}") == counters.check(name, 4, key="{k}")
                assert [check.level for check in counters.check(name, 2)] == [3, 3]
                assert counters.counter(name) is not None
    finally:
        node.remove()


def test_many_processes_count_one_customer_exactly(url: str) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", CHECKS, url, "250"], stdout=subprocess.PIPE)  # noqa: S603 - our own
        for _ in range(4)
    ]
    counts = [count for process in processes for count in json.loads(process.communicate(timeout=60)[0])]
    assert sorted(counts, reverse=True) == list(range(0, -2_000, -1))
    with open_counters(url) as counters:
        assert counters.check("acme")[0].count == -2_000


def test_what_a_fork_brings_along_is_not_used(url: str, tmp_path: Path) -> None:
    """The same for a file, where a connection that two processes use may damage it."""
    script = """
import json, os, sys
from inturn import open_counters
counters = [open_counters(url) for url in sys.argv[1:]]
seen = [each.check("acme")[0].count for each in counters]
child = os.fork()
if child == 0:
    print(json.dumps([each.check("acme")[0].count for each in counters]), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps([each.check("acme")[0].count for each in counters]))
"""
    command = [sys.executable, "-c", script, url, str(tmp_path / "counters.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - our own
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[-1, -1], [-2, -2]]


def test_a_restarted_server_is_found_again_and_has_forgotten(server: RedisServer) -> None:
    with open_counters(server.url) as counters:
        counters.check("acme", 30)
        server.stop()
        with pytest.raises(StoreError, match="cannot be reached"):
            counters.check("acme")
        server.start(server.port)
        assert counters.check("acme")[0] == (1, 0)


def test_nothing_is_opened_before_the_first_check(server: RedisServer) -> None:
    url = server.url
    server.stop()
    with open_counters(url) as counters, pytest.raises(StoreError):
        counters.check("acme")


def test_errors_say_what_to_do_and_no_password(server: RedisServer) -> None:
    with client.Redis(port=server.port) as direct, open_counters(server.url) as counters:
        direct.config_set("maxmemory", "1mb")
        with pytest.raises(StoreFullError, match="maxmemory"):
            counters.check("acme")
        direct.config_set("maxmemory", "0")
        direct.replicaof("127.0.0.1", 1)
        with pytest.raises(StoreReadOnlyError, match="primary"):
            counters.check("acme")
        direct.replicaof("NO", "ONE")
        assert counters.check("acme")[0].count == 0
    with open_counters(f"redis://anna:secret@127.0.0.1:{server.port}") as counters:
        with pytest.raises(StoreError) as refused:
            counters.check("acme")
        assert "secret" not in str(refused.value)
    with open_counters("redis://127.0.0.1:1") as counters, pytest.raises(StoreError, match="check host and port"):
        counters.counter("acme")


def test_a_policy_reaches_other_processes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inturn.stores.redis.counters.POLICY_CACHE_SECONDS", 0.0)
    with open_counters(url) as one, open_counters(url) as other:
        assert one.check("acme", 3)[-1].level == 1
        other.set_policy(PriorityPolicy(thresholds=(-1,)), ANNA)
        assert one.check("acme")[0].level == 2
        assert one.policy().thresholds == (-1,)


@pytest.mark.parametrize("url", ["amqp://localhost", "", "http://x"])
def test_addresses_that_mean_nothing_are_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInputError):
        open_counters(url)


def test_a_missing_package_is_named_with_the_line_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inturn.stores.find_spec", lambda _: None)
    with pytest.raises(InvalidInputError, match=r"pip install 'inturn\[redis\]'"):
        open_counters("redis://localhost")
    with pytest.raises(InvalidInputError, match=r"pip install 'inturn\[postgres\]'"):
        open_counters("postgresql://localhost/x")

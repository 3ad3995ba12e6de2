"""Security defaults: authentication, limits, and secrets that are never disclosed."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from inturn.api_keys import ApiKey, ApiKeyScope, generate_api_key
from inturn.cli.logs import JsonFormatter
from inturn.config import Settings
from inturn.errors import InvalidInputError
from inturn.http.key_cache import CACHE_TTL
from inturn.http.limits import WAITING_CACHE_TTL
from inturn.http.scope import CallerScope
from inturn.http.server import require_live_api_key
from inturn.http.settings import Limits, server_settings
from inturn.model import NewDocument
from inturn.values import SECOND

from .conftest import ANNA, UNLIMITED, Harness

MakeHarness = Callable[..., Harness]


def now() -> int:
    return time.time_ns() // 1_000


# -- 1: without keys, this machine alone ------------------------------------------------------------------------------


@pytest.fixture
def local(make_harness: MakeHarness) -> Harness:
    return make_harness(needs_keys=False)


def test_without_keys_a_local_caller_is_an_operator(local: Harness) -> None:
    client = local.client_as(None)
    assert client.post("/v1/documents", json={"customer": "acme", "documents": [{"name": "a"}]}).status_code == 202
    assert client.get("/v1/customers/acme").status_code == 200
    for host in ("localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"):
        assert client.get("/v1/documents", headers={"Host": host}).status_code == 200, host


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "192.168.1.5:8000"},
        {"Host": "[::1"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example:8000"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-Host": "localhost"},
        {"X-Forwarded-Proto": "https"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Real-IP": "127.0.0.1"},
    ],
)
def test_without_keys_foreign_hosts_origins_and_proxies_are_refused(local: Harness, headers: dict[str, str]) -> None:
    client = local.client_as(None)
    for path in ("/v1/documents", "/metrics", "/openapi.json", "/healthz", "/nowhere"):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "refused"), path


def test_without_keys_a_local_origin_is_accepted(local: Harness) -> None:
    answer = local.client_as(None).get("/v1/documents", headers={"Origin": "http://127.0.0.1:3000"})
    assert answer.status_code == 200


def test_wrong_key_is_refused_even_where_no_key_is_needed(local: Harness) -> None:
    assert local.client_as("inturn_x").get("/v1/documents").status_code == 401
    assert local.client_as(None).get("/v1/documents", headers={"Authorization": "Basic eDp5"}).status_code == 401
    assert local.client_as(local.create_api_key("acme")).get("/v1/audit").status_code == 404


@pytest.mark.parametrize("settings", [Settings(host="0.0.0.0"), Settings(host="::"), Settings(auth="keys")])  # noqa: S104
def test_public_address_requires_a_key_to_start(make_harness: MakeHarness, settings: Settings) -> None:
    asked = server_settings(settings)
    assert asked.needs_keys
    harness = make_harness(needs_keys=asked.needs_keys)
    require_live_api_key(harness.app_state)
    (only,) = harness.queue.store.api_keys.all()
    harness.queue.store.api_keys.revoke(only.id, now(), ANNA)
    with pytest.raises(InvalidInputError, match="inturn keys create"):
        require_live_api_key(harness.app_state)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_address_needs_no_keys(host: str) -> None:
    assert not server_settings(Settings(host=host)).needs_keys


@pytest.mark.parametrize("path", ["/v1/documents", "/metrics", "/openapi.json", "/v1/policy", "/v1/audit"])
def test_with_keys_only_health_routes_are_open(harness: Harness, path: str) -> None:
    client = harness.client_as(None)
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}
    assert harness.client_as(harness.operator).get(path).status_code == 200


# -- 2: keys ----------------------------------------------------------------------------------------------------------


def test_a_key_has_32_random_bytes_and_only_its_hash_is_kept(harness: Harness) -> None:
    text = harness.create_api_key("acme")
    word, id_, secret = text.split("_")
    assert (word, len(bytes.fromhex(id_)), len(bytes.fromhex(secret))) == ("inturn", 6, 32)
    assert harness.create_api_key("acme") != text
    harness.client_as(text).get("/v1/documents")
    harness.app_state.key_cache.flush_last_used(force=True)
    harness.queue.store.backup(harness.folder / "copy.db")
    assert secret.encode() not in (harness.folder / "copy.db").read_bytes()
    assert harness.queue.store.api_keys.find(id_).used_at is not None


def test_expired_revoked_and_altered_keys_are_refused(harness: Harness) -> None:
    text = harness.create_api_key("acme")
    assert harness.client_as(text).get("/v1/documents").status_code == 200
    almost = [text[:-1] + ("0" if text[-1] != "0" else "1"), text + "0", text.upper(), text.split("_")[2], "", " "]
    for error in almost:
        assert harness.client_as(error).get("/v1/documents").status_code == 401, error
    gone, key = generate_api_key(ApiKey("", "", ApiKeyScope.OPERATOR, "old", None, now(), now() - 1))
    harness.queue.store.api_keys.add(key, ANNA)
    assert harness.client_as(gone).get("/v1/documents").status_code == 401
    harness.queue.store.api_keys.revoke(text.split("_")[1], now(), ANNA)
    harness.clock.advance(CACHE_TTL)
    assert harness.client_as(text).get("/v1/documents").status_code == 401


def test_two_keys_of_a_customer_are_valid_together(harness: Harness) -> None:
    first, second = harness.create_api_key("acme"), harness.create_api_key("acme")
    id_ = (
        harness.client_as(first).post("/v1/documents", json={"documents": [{"name": "a"}]}).json()["receipts"][0]["id"]
    )
    assert harness.client_as(second).get(f"/v1/documents/{id_}").status_code == 200


def test_a_read_only_key_changes_nothing(harness: Harness) -> None:
    (receipt,) = harness.queue.submit("acme", [NewDocument("a")])
    for customer in (None, "acme"):
        client = harness.client_as(harness.create_api_key(customer, ApiKeyScope.READ_ONLY))
        assert client.get(f"/v1/documents/{receipt.id}").status_code == 200
        for path, operations in harness.app.openapi()["paths"].items():
            for method in operations.keys() - {"get"}:
                answer = client.request(method, path.replace("{id}", receipt.id).replace("{name}", "acme"), json={})
                assert (answer.status_code, answer.json()["code"]) == (403, "read_only_key"), path
    assert len(harness.queue.events()) == 1 + len(harness.queue.store.api_keys.all())


# -- 4 and 5: uploads -------------------------------------------------------------------------------------------------

SMALL = Limits(file=1_000, body=5_000, files=2, fields=2, per_second=1e6, burst=1_000_000)


def upload(client: TestClient, *sizes: int, **fields: str) -> Any:
    files = [("file", (f"{number}.txt", b"x" * size)) for number, size in enumerate(sizes)]
    return client.post("/v1/documents", files=files, data=fields)


@pytest.mark.parametrize(
    ("sizes", "fields"),
    [
        ((1_001,), {}),
        ((10, 10, 10), {}),
        ((10, 1_001), {}),
        ((10,), {"batch": "a", "metadata": "{}", "customer": "acme"}),
        ((10,), {"batch": "x" * 3_000, "metadata": "y" * 3_000}),
    ],
)
def test_an_upload_above_a_limit_is_refused_and_leaves_nothing(
    make_harness: MakeHarness, sizes: tuple[int, ...], fields: dict[str, str]
) -> None:
    harness = make_harness(limits=SMALL)
    client = harness.client_as(harness.create_api_key("acme"))
    answer = upload(client, *sizes, **fields)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert harness.stored_blobs() == set()
    assert harness.queue.documents().items == ()
    assert upload(client, 1_000, 1_000, batch="a").status_code == 202


def test_upload_limit_counts_real_bytes_not_content_length(make_harness: MakeHarness) -> None:
    harness = make_harness(limits=SMALL)
    client = harness.client_as(harness.create_api_key("acme"))
    said = client.post(
        "/v1/documents", content=b"x", headers={"Content-Length": "6000", "Content-Type": "application/json"}
    )
    assert said.status_code == 413

    def pieces() -> Any:
        for _ in range(100):
            yield b"x" * 100

    unsaid = client.post("/v1/documents", content=pieces(), headers={"Content-Type": "application/json"})
    assert unsaid.status_code == 413


def test_other_routes_refuse_a_large_body(harness: Harness) -> None:
    client = harness.client_as(harness.operator)
    for method, path in (("POST", "/v1/checks"), ("PUT", "/v1/policy"), ("POST", "/v1/documents/cancel")):
        answer = client.request(
            method, path, content=b"[" + b"1," * 600_000, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large"), path


def test_default_limits_match_the_documentation() -> None:
    limits = server_settings(Settings()).limits
    assert (limits.file, limits.body, limits.files, limits.fields) == (50 << 20, 100 << 20, 10, 20)
    assert (limits.per_second, limits.burst, limits.failed_logins, limits.failed_login_window) == (
        20,
        60,
        10,
        900_000_000,
    )
    assert (limits.waiting, limits.stored) == (10_000, 5 << 30)


def test_file_name_never_becomes_a_path(harness: Harness) -> None:
    client = harness.client_as(harness.create_api_key("acme"))
    for name in ("../../etc/passwd", "/etc/passwd", "..\\..\\a", "a\x00b", "", ".", "x" * 1_000):
        answer = client.post("/v1/documents", files=[("file", (name or "unnamed", b"x"))])
        assert answer.status_code == 202
    stored = {document.spec.blob for document in harness.queue.documents().items}
    assert harness.stored_blobs() == stored
    assert all(path.parent.parent == harness.folder / "blobs" for path in (harness.folder / "blobs").rglob("*-*"))


# -- 9: JSON only, nothing fetched ------------------------------------------------------------------------------------


def test_server_never_fetches_a_uri(harness: Harness) -> None:
    client = harness.client_as(harness.create_api_key("acme"))
    for uri in ("http://127.0.0.1:1/x", "file:///etc/passwd", "http://169.254.169.254/latest"):
        answer = client.post("/v1/documents", json={"documents": [{"name": "a", "uri": uri}]})
        assert answer.status_code == 202
    source = "\n".join(path.read_text() for path in (Path(__file__).parents[2] / "src/inturn/http").rglob("*.py"))
    assert "pickle" not in source
    assert "urlopen" not in source


# -- 11: limits -------------------------------------------------------------------------------------------------------


def test_rate_limit_allows_a_burst_then_a_steady_rate(make_harness: MakeHarness) -> None:
    harness = make_harness(limits=Limits(per_second=2, burst=5))
    harness.clock.stop()
    acme, beta = harness.client_as(harness.create_api_key("acme")), harness.client_as(harness.create_api_key("beta"))
    answers = [acme.get("/v1/documents") for _ in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
    refused = answers[-1]
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (429, "too_many", "1")
    assert beta.get("/v1/documents").status_code == 200
    harness.clock.advance(SECOND)
    assert [acme.get("/v1/documents").status_code for _ in range(3)] == [200, 200, 429]


def test_wrong_keys_are_counted_for_each_address_and_id(make_harness: MakeHarness) -> None:
    harness = make_harness()
    good = harness.create_api_key("acme")
    error = good[:-4] + "0000"
    for _ in range(10):
        assert harness.client_as(error).get("/v1/documents").status_code == 401
    locked = harness.client_as(error).get("/v1/documents")
    assert (locked.status_code, locked.json()["code"]) == (429, "too_many")
    assert 800 <= int(locked.headers["retry-after"]) <= 900
    assert harness.client_as(good).get("/v1/documents").status_code == 429
    assert harness.client_as(harness.create_api_key("beta")).get("/v1/documents").status_code == 200
    for _ in range(11):
        unknown = harness.client_as("nonsense").get("/v1/documents")
    assert unknown.status_code == 429
    harness.client_address = "192.0.2.2"
    assert harness.client_as(good).get("/v1/documents").status_code == 200


def test_quota_limits_waiting_documents_and_stored_bytes(make_harness: MakeHarness) -> None:
    harness = make_harness(limits=Limits(per_second=1e6, burst=1_000_000, waiting=5, stored=1_000))
    acme, beta = harness.client_as(harness.create_api_key("acme")), harness.client_as(harness.create_api_key("beta"))

    def send(client: TestClient, n: int, **more: Any) -> Any:
        return client.post("/v1/documents", json={"documents": [{"name": "a", **more}] * n})

    assert send(acme, 6).status_code == 429
    assert send(acme, 5).status_code == 202
    refused = send(acme, 1)
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (429, "quota", "60")
    assert upload(acme, 1).status_code == 429
    assert send(beta, 1, text="x" * 600).status_code == 202
    assert send(beta, 1, text="x" * 600).status_code == 429
    assert upload(beta, 600).json()["code"] == "quota"
    assert upload(beta, 300).status_code == 202
    assert len(harness.stored_blobs()) == 2
    harness.process_documents(n=10)
    harness.clock.advance(WAITING_CACHE_TTL)
    assert send(acme, 5).status_code == 202


# -- 12: nothing secret is told ---------------------------------------------------------------------------------------


def test_keys_and_texts_are_in_no_log_and_no_error(make_harness: MakeHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness = make_harness(limits=UNLIMITED)
    key, planted = harness.create_api_key("acme"), ["PLANTED-TEXT", "PLANTED-PASSWORD", "PLANTED-KEY"]
    client, answers = harness.client_as(key), []
    with caplog.at_level(logging.DEBUG):
        answers += [
            client.post("/v1/documents", json={"documents": [{"name": "a", "text": "PLANTED-TEXT"}]}),
            client.post("/v1/documents", json={"documents": [{"name": "a", "text": 5, "PLANTED-TEXT": 1}]}),
            client.post("/v1/documents", files=[("file", ("a", b"PLANTED-TEXT"))], data={"metadata": '"PLANTED-TEXT"'}),
            client.post("/v1/documents", content=b"PLANTED-TEXT", headers={"Content-Type": "application/json"}),
            client.post("/v1/checks", json={"count": "PLANTED-PASSWORD"}),
            client.get("/v1/documents", params={"text": "PLANTED-TEXT", "key": "PLANTED-KEY"}),
            client.get("/v1/documents", params={"level": "PLANTED-PASSWORD"}),
            harness.client_as("inturn_PLANTED-KEY").get("/v1/documents"),
            client.get("/metrics"),
        ]
    ours = [
        record for record in caplog.records if not record.name.startswith("httpx2")
    ]  # that one is the caller's own log
    reported = "".join(JsonFormatter().format(our) + str(vars(our)) for our in ours)
    reported += "".join(answer.text + str(answer.headers) for answer in answers)
    assert "/v1/documents" in reported
    for word in (*planted, key, key.split("_")[2]):
        # The name of an unknown field is the caller's own word, told back to the caller alone.
        assert word not in reported.replace("documents.0.PLANTED-TEXT: Extra inputs", ""), word


def test_unexpected_error_is_logged_with_an_id_and_not_disclosed(
    harness: Harness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("PLANTED-TEXT")

    monkeypatch.setattr(CallerScope, "documents", broken)
    with caplog.at_level(logging.INFO):
        answer = harness.client_as(harness.operator).get("/v1/documents", headers={"X-Request-ID": "my-id"})
    assert (answer.status_code, answer.json()["code"]) == (500, "unexpected")
    assert answer.headers["x-request-id"] == "my-id"
    (line,) = [json.loads(JsonFormatter().format(record)) for record in caplog.records if record.levelname == "ERROR"]
    assert (line["request"], line["status"]) == ("my-id", 500)
    assert line["wrong"].startswith("RuntimeError at ")
    assert "PLANTED-TEXT" not in caplog.text + answer.text

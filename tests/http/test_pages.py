"""The page's files, sessions and overview."""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from inturn.api_keys import ApiKeyScope
from inturn.clock import ManualClock
from inturn.http.app import create_app
from inturn.http.routes.session import queue_name
from inturn.http.routes.static_files import CONTENT_SECURITY_POLICY, PAGE_PATHS, load_bundle
from inturn.http.sessions import COOKIE_NAME, RENEW_AFTER_SECONDS, SESSION_LIFETIME_SECONDS
from inturn.http.settings import Limits, ServerSettings
from inturn.http.state import AppState
from inturn.i18n import LANGUAGES, page_entries
from inturn.model import NewDocument
from inturn.store_types import EventKind
from inturn.values import SECOND
from inturn.worker_report import Progress, WorkerReport
from waiting import wait_until

from .conftest import ANNA, UNLIMITED, Harness

MakeHarness = Callable[..., Harness]
STATIC = Path(__file__).parents[2] / "src" / "inturn" / "http" / "static"
HERE = {"Origin": "http://testserver"}


# -- files ------------------------------------------------------------------------------------------------------------


def test_the_shell_is_at_every_address_of_the_page_and_needs_no_key(harness: Harness) -> None:
    client = harness.client_as(None)
    for address in PAGE_PATHS:
        answer = client.get(address.replace("{name:path}", "a/b").replace("{id}", "x"))
        assert answer.status_code == 200, address
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert f"/static/{load_bundle().build}/app.js" in answer.text
    assert client.get("/nowhere").status_code == 404
    assert client.post("/").status_code == 405
    assert client.head("/customers").status_code == 200


def test_content_security_policy_is_strict() -> None:
    assert CONTENT_SECURITY_POLICY == "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"


def test_static_files_are_cached_by_build_and_compressed(harness: Harness) -> None:
    client, build = harness.client_as(None), load_bundle().build
    for path, file in load_bundle().files.items():
        if path == "index.html":
            continue
        answer = client.get(f"/static/{build}/{path}", headers={"Accept-Encoding": "gzip"})
        assert (answer.status_code, answer.content) == (200, file.body), path
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        again = client.get(f"/static/{build}/{path}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    plain = client.get(f"/static/{build}/app.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    older = client.get("/static/0123456789abcdef/app.js")
    assert (older.status_code, older.headers["cache-control"]) == (200, "no-cache")


@pytest.mark.parametrize("path", ["", "index.html", "nothing.js", "..%2fapp.py", "%2e%2e/app.py", "../../app.py"])
def test_only_files_of_the_page_are_served(harness: Harness, path: str) -> None:
    answer = harness.client_as(None).get(f"/static/{load_bundle().build}/{path}")
    assert answer.status_code == 404
    assert "FastAPI" not in answer.text


def test_an_overview_takes_less_than_200_kilobytes(harness: Harness) -> None:
    at_once = ["pages/overview.js", "pages/overview.css", "texts/de.json", "index.html", "icon.svg"]
    core = [file for file in load_bundle().files if not file.startswith(("pages/", "texts/"))]
    sent = sum(len(load_bundle().files[item].gzipped) + 500 for item in {*at_once, *core})
    assert sent + len(harness.client_as(harness.operator).get("/v1/overview").content) < 150_000


def test_server_and_page_agree_on_routes_and_event_kinds() -> None:
    routes = re.findall(r'path: "([^"]+)"', (STATIC / "routes.js").read_text())
    assert [re.sub(r":(\w+)", r"{\1}", route) for route in routes] == [
        page_path.replace(":path", "") for page_path in PAGE_PATHS
    ]
    (kinds,) = re.findall(r"const EVENT_KINDS = \[(.*?)\];", (STATIC / "events.js").read_text(), re.DOTALL)
    assert re.findall(r'"(\w+)"', kinds) == [str(event_kind) for event_kind in EventKind]


def test_every_page_has_a_module_a_style_and_a_title() -> None:
    names = re.findall(r'page: "(\w+)"', (STATIC / "routes.js").read_text())
    for name in names:
        assert f"pages/{name}.js" in load_bundle().files
        assert f"pages/{name}.css" in load_bundle().files
        assert f"{name}.title" in page_entries("en")


def test_nothing_is_inline_nothing_parses_html_and_nothing_is_fetched_from_elsewhere() -> None:
    for path in STATIC.rglob("*.*"):
        text = path.read_text()
        for error in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert error not in text, f"{path.name}: {error}"
        elsewhere = set(re.findall(r"https?://[^\s\"'<>)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not elsewhere, f"{path.name}: {elsewhere}"
        assert not re.search(r"\sstyle=|\son\w+=\"|<script>|<style", text), path.name


# -- sessions ---------------------------------------------------------------------------------------------------------


def signed_in(harness: Harness, key: str, app: Any = None) -> tuple[TestClient, str]:
    """A browser that has shown its key, and the token it got."""
    client = TestClient(app or harness.app, base_url="http://testserver", client=("192.0.2.1", 1234))
    answer = client.post("/session", json={"key": key}, headers=HERE)
    assert answer.status_code == 200, answer.text
    return client, answer.json()["who"]["csrf"]


def test_sign_in_sets_an_httponly_cookie_without_the_key(harness: Harness) -> None:
    client = harness.client_as(None)
    assert client.get("/session").json()["who"] is None
    answer = client.post("/session", json={"key": f" {harness.operator} "}, headers=HERE)
    header = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/", f"Max-Age={SESSION_LIFETIME_SECONDS}"} <= set(header.split("; "))
    assert "Secure" not in header
    assert harness.operator.split("_")[2] not in header
    who = client.get("/session").json()["who"]
    assert (who["name"], who["scope"], who["acts"], who["sees_all"]) == ("anna", "operator", True, True)
    assert client.get("/v1/audit").status_code == 200


def test_over_https_the_cookie_is_secure_also_behind_a_proxy(harness: Harness) -> None:
    answer = harness.client_as(None).post(
        "/session", json={"key": harness.operator}, headers={"Origin": "https://testserver"}
    )
    assert "Secure" in answer.headers["set-cookie"].split("; ")


def test_a_change_needs_the_token_and_the_pages_own_origin(harness: Harness) -> None:
    client, token = signed_in(harness, harness.operator)
    body = {"customer": "acme", "documents": [{"name": "a"}]}
    good = {**HERE, "X-CSRF-Token": token}
    error: list[dict[str, str]] = [
        {},
        HERE,
        {"X-CSRF-Token": token},
        {**good, "X-CSRF-Token": "0" * 64},
        {**good, "Origin": "https://evil.example"},
        {**good, "Origin": "null"},
        {**good, "Origin": "http://testserver.evil.example"},
        {**good, "Origin": "http://testserver:8080"},
    ]
    for method, path in (("POST", "/v1/documents"), ("PATCH", "/v1/customers/acme"), ("POST", "/v1/checks")):
        for headers in error:
            answer = client.request(method, path, json=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "refused"), (method, path, headers)
    assert harness.queue.counts().states == {}
    assert client.post("/v1/documents", json=body, headers=good).status_code == 202


def test_the_token_of_one_session_is_not_that_of_another(harness: Harness) -> None:
    client, token = signed_in(harness, harness.operator)
    _, other = signed_in(harness, harness.operator)
    assert token != other
    answer = client.post("/v1/checks", json={"customer": "acme"}, headers={**HERE, "X-CSRF-Token": other})
    assert answer.status_code == 403


def test_signing_in_is_refused_from_another_page_and_with_a_wrong_key(harness: Harness) -> None:
    client = harness.client_as(None)
    for headers in ({}, {"Origin": "https://evil.example"}):
        assert client.post("/session", json={"key": harness.operator}, headers=headers).status_code == 403
    answer = client.post("/session", json={"key": harness.operator[:-1] + "x"}, headers=HERE)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert "set-cookie" not in answer.headers


def test_wrong_keys_are_counted(make_harness: MakeHarness) -> None:
    harness = make_harness(limits=Limits(failed_logins=3))
    client = harness.client_as(None)
    error = harness.operator[:-1] + ("0" if harness.operator[-1] != "0" else "1")
    tried = [client.post("/session", json={"key": error}, headers=HERE).status_code for _ in range(4)]
    assert tried == [401, 401, 401, 429]


@pytest.mark.parametrize("change", ["id", "until", "nonce", "mark", "none", "dots", "text"])
def test_tampered_cookie_is_refused(harness: Harness, change: str) -> None:
    client, _ = signed_in(harness, harness.operator)
    id_, until, nonce, mark = client.cookies[COOKIE_NAME].split(".")
    made = {
        "id": f"{harness.create_api_key('acme').split('_')[1]}.{until}.{nonce}.{mark}",
        "until": f"{id_}.{int(until) + 1}.{nonce}.{mark}",
        "nonce": f"{id_}.{until}.{nonce[::-1]}.{mark}",
        "mark": f"{id_}.{until}.{nonce}.{mark[::-1]}",
        "none": f"{id_}.{until}.{nonce}.",
        "dots": f"{id_}...",
        "text": "nonsense",
    }[change]
    answer = harness.client_as(None).get("/v1/documents", headers={"Cookie": f"{COOKIE_NAME}={made}"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


def test_session_is_valid_at_every_server_and_after_a_restart(harness: Harness) -> None:
    client, token = signed_in(harness, harness.operator)
    settings = ServerSettings(needs_keys=True, limits=UNLIMITED)
    other = TestClient(create_app(AppState(harness.queue, harness.blobs, settings)), cookies=dict(client.cookies))
    assert other.get("/session").json()["who"]["csrf"] == token
    headers = {**HERE, "X-CSRF-Token": token}
    assert other.post("/v1/checks", json={"customer": "acme"}, headers=headers).status_code == 200


def test_a_session_ends_with_its_key(make_harness: MakeHarness) -> None:
    harness = make_harness()
    client, _ = signed_in(harness, harness.operator)
    assert client.get("/v1/documents").status_code == 200
    key = harness.queue.store.api_keys.all()[0]
    harness.queue.store.api_keys.revoke(key.id, 1, ANNA)
    harness.clock.advance(SECOND)  # keys are cached for as long
    assert client.get("/v1/documents").status_code == 401
    assert client.get("/session").json()["who"] is None


def test_a_session_lasts_a_week_and_is_renewed_by_use(tmp_path: Path) -> None:
    harness = Harness(tmp_path, ServerSettings(needs_keys=True, limits=UNLIMITED))
    clock = ManualClock(harness.app_state.clock.now())
    app = create_app(AppState(harness.queue, harness.blobs, harness.app_state.settings, clock=clock))
    client, _ = signed_in(harness, harness.operator, app)
    assert "set-cookie" not in client.get("/session").headers
    clock.advance((RENEW_AFTER_SECONDS + 1) * SECOND)
    renewed = client.get("/session")
    assert "set-cookie" in renewed.headers
    headers = {**HERE, "X-CSRF-Token": renewed.json()["who"]["csrf"]}
    assert client.post("/v1/checks", json={"customer": "acme"}, headers=headers).status_code == 200
    clock.advance(SESSION_LIFETIME_SECONDS * SECOND)
    assert client.get("/v1/documents").status_code == 401
    harness.queue.close()


def test_sign_out_deletes_the_cookie_also_of_a_read_only_key(harness: Harness) -> None:
    client, token = signed_in(harness, harness.create_api_key(None, ApiKeyScope.READ_ONLY))
    assert client.delete("/session", headers=HERE).status_code == 403
    assert client.delete("/session", headers={**HERE, "X-CSRF-Token": token}).status_code == 204
    assert COOKIE_NAME not in client.cookies
    assert client.get("/v1/documents").status_code == 401
    assert client.delete("/session", headers=HERE).status_code == 204  # nobody is signed in


def test_sign_out_deletes_a_cookie_that_is_worth_nothing_any_more(harness: Harness) -> None:
    client, _ = signed_in(harness, harness.create_api_key("acme"))
    (key,) = (key for key in harness.queue.store.api_keys.all() if key.customer == "acme")
    harness.queue.store.api_keys.revoke(key.id, key.made_at, ANNA)
    harness.clock.advance(60 * SECOND)  # what the server remembers of keys is older
    assert client.delete("/session", headers=HERE).status_code == 204
    assert COOKIE_NAME not in client.cookies


def test_read_only_session_is_marked_and_changes_nothing(harness: Harness) -> None:
    client, token = signed_in(harness, harness.create_api_key(None, ApiKeyScope.READ_ONLY))
    who = client.get("/session").json()["who"]
    assert (who["scope"], who["acts"], who["sees_all"]) == ("read-only", False, True)
    answer = client.post("/v1/checks", json={"customer": "acme"}, headers={**HERE, "X-CSRF-Token": token})
    assert (answer.status_code, answer.json()["code"]) == (403, "read_only_key")


def test_customer_session_does_not_name_the_queue(harness: Harness) -> None:
    client, _ = signed_in(harness, harness.create_api_key("acme"))
    reported = client.get("/session").json()
    assert (reported["who"]["customer"], reported["who"]["sees_all"], reported["queue"]) == ("acme", False, None)
    assert client.get("/v1/customers/beta").status_code == client.get("/v1/overview").status_code == 404


def test_a_key_in_the_header_counts_more_than_a_cookie_and_needs_no_token(harness: Harness) -> None:
    client, _ = signed_in(harness, harness.operator)
    acme = {"Authorization": f"Bearer {harness.create_api_key('acme')}"}
    assert client.get("/v1/audit", headers=acme).status_code == 404
    assert client.post("/v1/checks", json={}, headers=acme).json()["customer"] == "acme"
    assert client.get("/v1/audit", headers={"Authorization": "Bearer nonsense"}).status_code == 401


def test_without_keys_the_session_is_the_local_operator(make_harness: MakeHarness) -> None:
    reported = make_harness(needs_keys=False).client_as(None).get("/session").json()
    assert (reported["who"]["name"], reported["who"]["csrf"], reported["needs_keys"]) == ("local", None, False)
    assert reported["languages"] == list(LANGUAGES)
    assert reported["build"] == load_bundle().build


@pytest.mark.parametrize(
    ("store", "name"),
    [
        ("inturn.db", "inturn.db"),
        ("sqlite:///var/lib/inturn/queue.db", "queue.db"),
        ("postgresql://anna:secret@db.example:5432/work?schema=inturn", "work/inturn"),
        ("memory://", None),
        (None, None),
    ],
)
def test_queue_name_has_no_host_or_credentials(store: str | None, name: str | None) -> None:
    assert queue_name(store) == name


def test_a_key_is_in_no_log_and_no_answer(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client, _ = signed_in(harness, harness.operator)
    error = harness.operator[:-4] + "zzzz"
    texts = [client.get(path).text for path in ("/", "/session", "/v1/overview", "/v1/audit")]
    texts.append(client.post("/session", json={"key": error}, headers=HERE).text)
    texts.append(client.post("/session", json={"kee": error}, headers=HERE).text)
    secret = harness.operator.split("_")[2][:-4]
    assert not [text for text in (*texts, caplog.text) if secret in text]
    assert harness.queue.store.api_keys.all()[0].sha256 not in "".join((*texts, caplog.text))


# -- the overview -----------------------------------------------------------------------------------------------------


def test_overview_has_waiting_running_and_workers(harness: Harness, anna: TestClient) -> None:
    harness.queue.submit("acme", [NewDocument("a.pdf")] * 24)
    harness.queue.submit("beta", [NewDocument("b.pdf")])
    claimed = harness.queue.claim("worker", 3)
    harness.queue.finish(claimed[0])
    harness.queue.fail(claimed[1], "no", final=True)
    held = claimed[2].document
    report = WorkerReport("worker", "host", 1, 4, 1, "extract", 0, progress={held.id: Progress(1, 4)})
    harness.queue.store.record_worker(report)
    result: dict[str, Any] = {}

    def is_filled() -> bool:
        """A board is looked at now and then, and events are heard in a thread of their own."""
        result.update(anna.get("/v1/overview").json())
        return bool(result["waits"] and result["states"]["failed"] and result["workers"])

    wait_until(is_filled)
    assert result["states"] | {"waiting": 22, "running": 1, "done": 1, "failed": 1} == result["states"]
    assert (result["waiting"]["9"], sum(result["waiting"].values())) == (3, 22)
    assert result["customers"] == 1
    assert (result["busy"]["waiting"], result["quiet"]["waiting"], result["last_level"]) == (3, 19, 9)
    assert result["busiest"][0] | {"customer": "acme", "level": 9, "waiting": 22} == result["busiest"][0]
    (worker,) = result["workers"]
    assert [(item["id"], item["done"]) for item in worker["documents"]] == [(held.id, 0.25)]
    assert result["overdue"] == {"after": 900 * SECOND, "every": 10, "levels": [], "uses": 0}
    assert result["waits"]["p50"] <= result["waits"]["p95"] <= result["waits"]["p99"]


def test_history_is_columnar_and_since_omits_old_points(anna: TestClient) -> None:
    history = anna.get("/v1/overview").json()["history"]
    assert {len(column) for column in history.values()} == {len(history["at"])} != {0}
    newer = anna.get("/v1/overview", params={"since": history["at"][-1]}).json()["history"]
    assert newer["at"] == [] or newer["at"][0] > history["at"][-1]


def test_concurrent_overviews_read_the_store_once(
    harness: Harness, anna: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.app_state.event_poller.periodic_tasks.remove(harness.app_state.history.refresh_if_due)
    harness.app_state.history.current()
    reads: list[int] = []
    counts = harness.queue.store.counts

    def counted(*given: Any) -> Any:
        reads.append(1)
        return counts(*given)

    monkeypatch.setattr(harness.queue.store, "counts", counted)
    for _ in range(20):
        anna.get("/v1/overview")
    assert len(reads) <= 1


def test_overview_lists_overdue_levels(tmp_path: Path) -> None:
    harness = Harness(tmp_path, ServerSettings(needs_keys=True, limits=UNLIMITED))
    clock = ManualClock(harness.app_state.clock.now())
    service = AppState(harness.queue, harness.blobs, harness.app_state.settings, clock=clock)
    harness.queue.submit("acme", [NewDocument("a")] * 4)
    assert service.history.current().overdue == ()
    clock.advance(901 * SECOND)
    assert service.history.current().overdue == (1, 2)
    assert service.history.current().live.at == clock.now()
    harness.queue.close()

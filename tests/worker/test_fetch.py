"""Fetching by uri: answers, redirects, silence and certificates of servers that nobody vouches for."""

import hashlib
import io
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from fetch_harness import FetchHarness, Script, answer, plain, ragged, redirect
from inturn.blobs import open_blobs
from inturn.errors import BlobTooLargeError, FetchError, FetchRefusedError
from inturn.fetch import Fetcher, FetchLimits
from inturn.values import SECOND


def test_a_document_is_fetched(fetch_harness: FetchHarness) -> None:
    server = fetch_harness.serve(plain(b"content", Content_Type="Application/PDF; x=y"))
    got, content = fetch_harness.get(server)
    assert got == (7, hashlib.sha256(b"content").hexdigest(), "application/pdf")
    assert content == b"content"


def test_the_request_says_no_more_than_it_must(fetch_harness: FetchHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server = fetch_harness.serve(plain(b""))
    fetch_harness.get(server)
    first, *headers = server.asked[0].decode().strip().split("\r\n")
    assert first == "GET /a/b?c=d HTTP/1.1"
    assert sorted(headers) == [
        "Accept-Encoding: identity",
        "Accept: */*",
        "Connection: close",
        f"Host: files.example.com:{server.port}",
        "User-Agent: inturn",
    ]


BODIES = {
    "length": plain(b"x" * 200_000),
    "chunks": answer(b"5\r\nxxxxx\r\n30D3B\r\n" + b"x" * 199_995 + b"\r\n0\r\n\r\n", Transfer_Encoding="chunked"),
    "end of connection": answer(b"x" * 200_000, Connection="close"),
}


@pytest.mark.parametrize("script", BODIES.values(), ids=BODIES)
def test_a_body_ends_in_any_of_three_ways(fetch_harness: FetchHarness, script: Script) -> None:
    got, content = fetch_harness.get(fetch_harness.serve(script), FetchLimits(size=200_000))
    assert got.size == 200_000
    assert content == b"x" * 200_000


@pytest.mark.parametrize("script", BODIES.values(), ids=BODIES)
def test_a_body_past_the_limit_is_refused(fetch_harness: FetchHarness, script: Script) -> None:
    into = io.BytesIO()
    server = fetch_harness.serve(script)
    with pytest.raises(FetchRefusedError, match="more than the allowed 199,999 bytes"):
        fetch_harness.fetcher(FetchLimits(size=199_999)).fetch(f"https://files.example.com:{server.port}/", into)
    assert len(into.getvalue()) <= 199_999


def test_an_announced_length_past_the_limit_is_refused_before_anything_is_kept(fetch_harness: FetchHarness) -> None:
    into = io.BytesIO()
    server = fetch_harness.serve(plain(b"x" * 200_000))
    with pytest.raises(FetchRefusedError):
        fetch_harness.fetcher(FetchLimits(size=199_999)).fetch(f"https://files.example.com:{server.port}/", into)
    assert into.getvalue() == b""


@pytest.mark.parametrize(
    "script",
    [
        answer(b"half", Content_Length="8"),
        ragged(b"half", Content_Length="8"),
        answer(b"8\r\nhalf", Transfer_Encoding="chunked"),
        answer(b"4\r\nhalf\r\n", Transfer_Encoding="chunked"),
        ragged(b"half"),
    ],
)
def test_a_body_that_breaks_off_is_an_error(fetch_harness: FetchHarness, script: Script) -> None:
    with pytest.raises(FetchError, match=r"files\.example\.com"):
        fetch_harness.get(fetch_harness.serve(script))


@pytest.mark.parametrize(
    "status", ["204 No Content", "206 Partial", "304 Not Modified", "401 No", "404 Not Found", "500 Oh"]
)
def test_any_other_status_is_an_error(fetch_harness: FetchHarness, status: str) -> None:
    with pytest.raises(FetchError, match=f"status {status[:3]}"):
        fetch_harness.get(fetch_harness.serve(answer(status=status)))


def test_a_compressed_answer_is_not_unpacked(fetch_harness: FetchHarness) -> None:
    with pytest.raises(FetchError, match="compressed"):
        fetch_harness.get(fetch_harness.serve(plain(b"x", Content_Encoding="gzip")))


def test_a_server_that_talks_nonsense_is_an_error_that_does_not_repeat_it(fetch_harness: FetchHarness) -> None:
    with pytest.raises(FetchError) as exception_info:
        fetch_harness.get(fetch_harness.serve(lambda talk: talk.sendall(b"nonsense\r\n\r\n")))
    assert "nonsense" not in str(exception_info.value)


def test_a_type_that_is_none_is_left_out(fetch_harness: FetchHarness) -> None:
    for given_type in ("", "pdf", "a/b/c", "text/<html>"):
        assert fetch_harness.get(fetch_harness.serve(plain(b"", Content_Type=given_type)))[0].media_type is None


@pytest.mark.parametrize(
    "limits", [FetchLimits(silence=SECOND // 10), FetchLimits(total=SECOND // 10, silence=3600 * SECOND)]
)
def test_silence_ends_the_fetch(fetch_harness: FetchHarness, limits: FetchLimits) -> None:
    def silent(talk: ssl.SSLSocket) -> None:
        talk.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
        server.stopped.wait()

    server = fetch_harness.serve(silent)
    with pytest.raises(FetchError, match="timed out"):
        fetch_harness.get(server, limits)


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"])
def test_a_server_that_drips_is_ended_in_any_phase(fetch_harness: FetchHarness, start: bytes) -> None:
    def dripping(talk: ssl.SSLSocket) -> None:
        talk.sendall(start)
        while not server.stopped.wait(0.01):
            talk.sendall(b"x")

    server = fetch_harness.serve(dripping)
    with pytest.raises(FetchError, match=r"took too long|timed out"):
        fetch_harness.get(server, FetchLimits(total=SECOND // 5))


def test_a_server_that_never_shakes_hands_is_ended(fetch_harness: FetchHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        fetcher = Fetcher(
            [f"example.com:{port}"],
            FetchLimits(silence=SECOND // 10),
            resolve=fetch_harness.resolve,
            tls=fetch_harness.tls(),
            is_allowed=lambda _: True,
        )
        with pytest.raises(FetchError, match="timed out"):
            fetcher.fetch(f"https://example.com:{port}/", io.BytesIO())


def test_redirects_are_followed_and_checked_anew(fetch_harness: FetchHarness) -> None:
    second = fetch_harness.serve(plain(b"content"))
    first = fetch_harness.serve(
        redirect("../c?d"), redirect(f"https://other.example.com:{second.port}/x", "308 Permanent Redirect")
    )
    got, content = fetch_harness.get(first)
    assert (got.size, content) == (7, b"content")
    assert fetch_harness.resolved == ["files.example.com", "files.example.com", "other.example.com"]
    assert [content.split(b" ", 2)[1] for content in first.asked + second.asked] == [b"/a/b?c=d", b"/c?d", b"/x"]


def test_three_redirects_and_no_more(fetch_harness: FetchHarness) -> None:
    steps = [redirect(f"/{number}") for number in range(4)]
    assert fetch_harness.get(fetch_harness.serve(*steps[:3], plain(b"x")))[1] == b"x"
    server = fetch_harness.serve(*steps, plain(b"x"))
    with pytest.raises(FetchRefusedError, match="more than 3 redirects"):
        fetch_harness.get(server)
    assert len(server.asked) == 4
    with pytest.raises(FetchRefusedError, match="more than 0 redirects"):
        fetch_harness.get(fetch_harness.serve(*steps), FetchLimits(redirects=0))


@pytest.mark.parametrize(
    "target",
    [
        "http://files.example.com/",
        "//evil.example.org/",
        "https://evil.example.org/",
        "https://files.example.com@evil.example.org/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::1/",
        "file:///etc/passwd",
        "ftp://files.example.com/",
        "https://files.example.com:22/",
        "https:\\\\evil.example.org/",
        "/\\evil.example.org/",
        "https://ex\xe4mple.com/",
    ],
)
def test_a_redirect_leads_nowhere_else(fetch_harness: FetchHarness, target: str) -> None:
    server = fetch_harness.serve(redirect(target), plain(b"secret"))
    with pytest.raises(FetchRefusedError):
        fetch_harness.get(server)
    assert len(server.asked) == 1
    assert fetch_harness.resolved == ["files.example.com"]


def test_a_redirect_to_nowhere_is_an_error(fetch_harness: FetchHarness) -> None:
    with pytest.raises(FetchError, match="redirects to nowhere"):
        fetch_harness.get(fetch_harness.serve(answer(status="302 Found", Content_Length="0")))


def test_a_name_that_answers_differently_the_second_time_is_asked_once(fetch_harness: FetchHarness) -> None:
    server = fetch_harness.serve(plain(b"content"))
    judged: list[str] = []
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    def judge(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        judged.append(str(address))
        return str(address) == "127.0.0.1"

    fetcher = Fetcher(
        [f"example.com:{server.port}"], resolve=lambda *_: next(answers), tls=fetch_harness.tls(), is_allowed=judge
    )
    assert fetcher.fetch(f"https://example.com:{server.port}/", io.BytesIO()).size == 7
    assert judged == ["127.0.0.1"]
    with pytest.raises(FetchRefusedError, match="not on the public internet"):
        fetcher.fetch(f"https://example.com:{server.port}/", io.BytesIO())


def test_a_redirect_to_the_same_name_is_resolved_and_judged_again(fetch_harness: FetchHarness) -> None:
    server = fetch_harness.serve(redirect("/again"), plain(b"secret"))
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    fetcher = Fetcher(
        [f"example.com:{server.port}"],
        resolve=lambda *_: next(answers),
        tls=fetch_harness.tls(),
        is_allowed=lambda address: str(address) == "127.0.0.1",
    )
    with pytest.raises(FetchRefusedError, match="not on the public internet"):
        fetcher.fetch(f"https://example.com:{server.port}/", io.BytesIO())
    assert len(server.asked) == 1


def test_one_bad_address_among_good_ones_refuses_them_all() -> None:
    fetcher = Fetcher(["example.com"], resolve=lambda *_: ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(FetchRefusedError, match="not on the public internet"):
        fetcher.fetch("https://example.com/", io.BytesIO())


def test_the_next_address_is_tried_when_one_does_not_answer(fetch_harness: FetchHarness) -> None:
    server = fetch_harness.serve(plain(b"content"))
    fetcher = Fetcher(
        [f"example.com:{server.port}"],
        resolve=lambda *_: ["127.0.0.9", "127.0.0.1"],
        tls=fetch_harness.tls(),
        is_allowed=lambda _: True,
    )
    assert fetcher.fetch(f"https://example.com:{server.port}/", io.BytesIO()).size == 7


def test_names_without_an_address_and_servers_that_are_not_there_are_errors(fetch_harness: FetchHarness) -> None:
    def fails(*_: object) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(FetchError, match="Name or service not known"):
        Fetcher(["example.com"], resolve=fails).fetch("https://example.com/", io.BytesIO())
    with pytest.raises(FetchError, match="has no address"):
        Fetcher(["example.com"], resolve=lambda *_: []).fetch("https://example.com/", io.BytesIO())
    stranger = Fetcher(["example.com:9"], resolve=fetch_harness.resolve, is_allowed=lambda _: True)
    with pytest.raises(FetchError, match="refused"):
        stranger.fetch("https://example.com:9/", io.BytesIO())


def test_a_certificate_of_another_name_or_of_nobody_is_refused(fetch_harness: FetchHarness) -> None:
    server = fetch_harness.serve(plain(b"secret"), plain(b"secret"))
    other = f"wrong.example.org:{server.port}"
    with pytest.raises(FetchError, match="certificate"):
        Fetcher([other], resolve=fetch_harness.resolve, tls=fetch_harness.tls(), is_allowed=lambda _: True).fetch(
            f"https://{other}/", io.BytesIO()
        )
    known = f"example.com:{server.port}"
    with pytest.raises(FetchError, match="certificate"):
        Fetcher([known], resolve=fetch_harness.resolve, is_allowed=lambda _: True).fetch(
            f"https://{known}/", io.BytesIO()
        )
    assert server.asked == []


def test_a_blob_can_be_fetched_straight_into_its_store(fetch_harness: FetchHarness, tmp_path: Path) -> None:
    blobs = open_blobs(str(tmp_path))
    server = fetch_harness.serve(plain(b"content"), plain(b"content"))
    uri = f"https://files.example.com:{server.port}/"
    with blobs.begin() as writing:
        got = fetch_harness.fetcher().fetch(uri, writing)
        assert writing.commit() == (writing.key, got.sha256, got.size)
    with pytest.raises(BlobTooLargeError), blobs.begin(limit=3) as writing:
        fetch_harness.fetcher().fetch(uri, writing)


def test_an_error_of_the_sink_is_its_own(fetch_harness: FetchHarness) -> None:
    class Full(io.BytesIO):
        def write(self, _chunk: object, /) -> int:
            raise OSError(28, "No space left on device")

    server = fetch_harness.serve(plain(b"content"))
    with pytest.raises(OSError, match="No space left"):
        fetch_harness.fetcher().fetch(f"https://files.example.com:{server.port}/", Full())


def test_errors_never_show_more_of_a_uri_than_its_host(fetch_harness: FetchHarness) -> None:
    server = fetch_harness.serve(answer(status="403 No"), redirect("https://evil.example.org/?token=hunter2"))
    for start in ("https://files.example.com", "https://evil.example.org", "https://me:hunter2@files.example.com"):
        with pytest.raises(FetchError) as exception_info:
            fetch_harness.fetcher().fetch(f"{start}:{server.port}/hunter2?token=hunter2", io.BytesIO())
        assert "hunter2" not in str(exception_info.value)

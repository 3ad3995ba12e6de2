"""Fetching by uri: what a stranger may make us ask, and whom. The servers are real, their certificate is the test's."""

import hashlib
import io
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from inturn.blobs import open_blobs
from inturn.errors import BlobTooLargeError, FetchError, FetchRefusedError, InvalidInputError
from inturn.fetch import Fetcher, FetchLimits, FetchResult, is_public
from inturn.model import SECOND

NAMES = ("files.example.com", "other.example.com", "example.com")
NO_ONE = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody, and is made much faster than one that trusts the system's authorities."""
Script = Callable[[ssl.SSLSocket], None]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One certificate for NAMES, which signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in NAMES]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("certificate") / "both.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


class Server:
    """Answers each connection with the next script and keeps what was asked."""

    def __init__(self, certificate: Path, *scripts: Script) -> None:
        self.asked: list[bytes] = []
        self.stopped = threading.Event()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._scripts = scripts
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        self.port: int = self._listener.getsockname()[1]

    def _serve(self) -> None:
        for script in self._scripts:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            with plain:
                try:
                    with self._context.wrap_socket(plain, server_side=True) as talk:
                        self.asked.append(_request(talk))
                        script(talk)
                except OSError:  # the other side left first, as it should where something was refused
                    continue

    def stop(self) -> None:
        self.stopped.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


def _request(talk: ssl.SSLSocket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got and (more := talk.recv(65_536)):
        got += more
    return got


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> Script:
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")

    def script(talk: ssl.SSLSocket) -> None:
        talk.sendall(head + body)
        talk.unwrap()

    return script


def plain(body: bytes, **headers: str) -> Script:
    return answer(body, Content_Length=str(len(body)), **headers)


def redirect(target: str, status: str = "302 Found") -> Script:
    return answer(status=status, Location=target, Content_Length="0")


class Rig:
    """A fetcher whose names lead to this machine, and its servers."""

    def __init__(self, certificate: Path) -> None:
        self._certificate = certificate
        self.servers: list[Server] = []
        self.resolved: list[str] = []

    def serve(self, *scripts: Script) -> Server:
        self.servers.append(Server(self._certificate, *scripts))
        return self.servers[-1]

    def resolve(self, host: str, _port: int) -> Sequence[str]:
        self.resolved.append(host)
        return ["127.0.0.1"]

    def fetcher(self, limits: FetchLimits | None = None, names: Sequence[str] = NAMES) -> Fetcher:
        """Allowed: the names on the ports of the servers."""
        hosts = [f"{name}:{server.port}" for name in names for server in self.servers]
        return Fetcher(hosts, limits, resolve=self.resolve, tls=self.tls(), is_allowed=lambda _: True)

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._certificate))

    def get(self, server: Server, limits: FetchLimits | None = None) -> tuple[FetchResult, bytes]:
        into = io.BytesIO()
        got = self.fetcher(limits).fetch(f"https://files.example.com:{server.port}/a/b?c=d#e", into)
        return got, into.getvalue()


@pytest.fixture
def rig(certificate: Path) -> Iterator[Rig]:
    made = Rig(certificate)
    yield made
    for server in made.servers:
        server.stop()


def test_a_document_is_fetched(rig: Rig) -> None:
    server = rig.serve(plain(b"content", Content_Type="Application/PDF; x=y"))
    got, content = rig.get(server)
    assert got == (7, hashlib.sha256(b"content").hexdigest(), "application/pdf")
    assert content == b"content"


def test_the_request_says_no_more_than_it_must(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server = rig.serve(plain(b""))
    rig.get(server)
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
def test_a_body_ends_in_any_of_three_ways(rig: Rig, script: Script) -> None:
    got, content = rig.get(rig.serve(script), FetchLimits(size=200_000))
    assert got.size == 200_000
    assert content == b"x" * 200_000


@pytest.mark.parametrize("script", BODIES.values(), ids=BODIES)
def test_a_body_past_the_limit_is_refused(rig: Rig, script: Script) -> None:
    into = io.BytesIO()
    server = rig.serve(script)
    with pytest.raises(FetchRefusedError, match="more than the allowed 199,999 bytes"):
        rig.fetcher(FetchLimits(size=199_999)).fetch(f"https://files.example.com:{server.port}/", into)
    assert len(into.getvalue()) <= 199_999


def test_an_announced_length_past_the_limit_is_refused_before_anything_is_kept(rig: Rig) -> None:
    into = io.BytesIO()
    server = rig.serve(plain(b"x" * 200_000))
    with pytest.raises(FetchRefusedError):
        rig.fetcher(FetchLimits(size=199_999)).fetch(f"https://files.example.com:{server.port}/", into)
    assert into.getvalue() == b""


def ragged(body: bytes, **headers: str) -> Script:
    whole = answer(body, **headers)

    def script(talk: ssl.SSLSocket) -> None:
        talk.unwrap = lambda: talk  # type: ignore[method-assign]  # closes without TLS's word of farewell
        whole(talk)

    return script


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
def test_a_body_that_breaks_off_is_an_error(rig: Rig, script: Script) -> None:
    with pytest.raises(FetchError, match=r"files\.example\.com"):
        rig.get(rig.serve(script))


@pytest.mark.parametrize(
    "status", ["204 No Content", "206 Partial", "304 Not Modified", "401 No", "404 Not Found", "500 Oh"]
)
def test_any_other_status_is_an_error(rig: Rig, status: str) -> None:
    with pytest.raises(FetchError, match=f"status {status[:3]}"):
        rig.get(rig.serve(answer(status=status)))


def test_a_compressed_answer_is_not_unpacked(rig: Rig) -> None:
    with pytest.raises(FetchError, match="compressed"):
        rig.get(rig.serve(plain(b"x", Content_Encoding="gzip")))


def test_a_server_that_talks_nonsense_is_an_error_that_does_not_repeat_it(rig: Rig) -> None:
    with pytest.raises(FetchError) as exception_info:
        rig.get(rig.serve(lambda talk: talk.sendall(b"nonsense\r\n\r\n")))
    assert "nonsense" not in str(exception_info.value)


def test_a_type_that_is_none_is_left_out(rig: Rig) -> None:
    for given_type in ("", "pdf", "a/b/c", "text/<html>"):
        assert rig.get(rig.serve(plain(b"", Content_Type=given_type)))[0].media_type is None


@pytest.mark.parametrize(
    "limits", [FetchLimits(silence=SECOND // 5), FetchLimits(total=SECOND // 5, silence=3600 * SECOND)]
)
def test_silence_ends_the_fetch(rig: Rig, limits: FetchLimits) -> None:
    def silent(talk: ssl.SSLSocket) -> None:
        talk.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
        server.stopped.wait()

    server = rig.serve(silent)
    with pytest.raises(FetchError, match="timed out"):
        rig.get(server, limits)


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"])
def test_a_server_that_drips_is_ended_in_any_phase(rig: Rig, start: bytes) -> None:
    def dripping(talk: ssl.SSLSocket) -> None:
        talk.sendall(start)
        while not server.stopped.wait(0.01):
            talk.sendall(b"x")

    server = rig.serve(dripping)
    with pytest.raises(FetchError, match=r"took too long|timed out"):
        rig.get(server, FetchLimits(total=SECOND // 3))


def test_a_server_that_never_shakes_hands_is_ended(rig: Rig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        fetcher = Fetcher(
            [f"example.com:{port}"],
            FetchLimits(silence=SECOND // 5),
            resolve=rig.resolve,
            tls=rig.tls(),
            is_allowed=lambda _: True,
        )
        with pytest.raises(FetchError, match="timed out"):
            fetcher.fetch(f"https://example.com:{port}/", io.BytesIO())


def test_redirects_are_followed_and_checked_anew(rig: Rig) -> None:
    second = rig.serve(plain(b"content"))
    first = rig.serve(
        redirect("../c?d"), redirect(f"https://other.example.com:{second.port}/x", "308 Permanent Redirect")
    )
    got, content = rig.get(first)
    assert (got.size, content) == (7, b"content")
    assert rig.resolved == ["files.example.com", "files.example.com", "other.example.com"]
    assert [content.split(b" ", 2)[1] for content in first.asked + second.asked] == [b"/a/b?c=d", b"/c?d", b"/x"]


def test_three_redirects_and_no_more(rig: Rig) -> None:
    steps = [redirect(f"/{number}") for number in range(4)]
    assert rig.get(rig.serve(*steps[:3], plain(b"x")))[1] == b"x"
    server = rig.serve(*steps, plain(b"x"))
    with pytest.raises(FetchRefusedError, match="more than 3 redirects"):
        rig.get(server)
    assert len(server.asked) == 4
    with pytest.raises(FetchRefusedError, match="more than 0 redirects"):
        rig.get(rig.serve(*steps), FetchLimits(redirects=0))


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
def test_a_redirect_leads_nowhere_else(rig: Rig, target: str) -> None:
    server = rig.serve(redirect(target), plain(b"secret"))
    with pytest.raises(FetchRefusedError):
        rig.get(server)
    assert len(server.asked) == 1
    assert rig.resolved == ["files.example.com"]


def test_a_redirect_to_nowhere_is_an_error(rig: Rig) -> None:
    with pytest.raises(FetchError, match="redirects to nowhere"):
        rig.get(rig.serve(answer(status="302 Found", Content_Length="0")))


def test_a_name_that_answers_differently_the_second_time_is_asked_once(rig: Rig) -> None:
    server = rig.serve(plain(b"content"))
    judged: list[str] = []
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    def judge(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        judged.append(str(address))
        return str(address) == "127.0.0.1"

    fetcher = Fetcher([f"example.com:{server.port}"], resolve=lambda *_: next(answers), tls=rig.tls(), is_allowed=judge)
    assert fetcher.fetch(f"https://example.com:{server.port}/", io.BytesIO()).size == 7
    assert judged == ["127.0.0.1"]
    with pytest.raises(FetchRefusedError, match="not on the public internet"):
        fetcher.fetch(f"https://example.com:{server.port}/", io.BytesIO())


def test_a_redirect_to_the_same_name_is_resolved_and_judged_again(rig: Rig) -> None:
    server = rig.serve(redirect("/again"), plain(b"secret"))
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    fetcher = Fetcher(
        [f"example.com:{server.port}"],
        resolve=lambda *_: next(answers),
        tls=rig.tls(),
        is_allowed=lambda address: str(address) == "127.0.0.1",
    )
    with pytest.raises(FetchRefusedError, match="not on the public internet"):
        fetcher.fetch(f"https://example.com:{server.port}/", io.BytesIO())
    assert len(server.asked) == 1


def test_one_bad_address_among_good_ones_refuses_them_all() -> None:
    fetcher = Fetcher(["example.com"], resolve=lambda *_: ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(FetchRefusedError, match="not on the public internet"):
        fetcher.fetch("https://example.com/", io.BytesIO())


def test_the_next_address_is_tried_when_one_does_not_answer(rig: Rig) -> None:
    server = rig.serve(plain(b"content"))
    fetcher = Fetcher(
        [f"example.com:{server.port}"],
        resolve=lambda *_: ["127.0.0.9", "127.0.0.1"],
        tls=rig.tls(),
        is_allowed=lambda _: True,
    )
    assert fetcher.fetch(f"https://example.com:{server.port}/", io.BytesIO()).size == 7


def test_names_without_an_address_and_servers_that_are_not_there_are_errors(rig: Rig) -> None:
    def fails(*_: object) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(FetchError, match="Name or service not known"):
        Fetcher(["example.com"], resolve=fails).fetch("https://example.com/", io.BytesIO())
    with pytest.raises(FetchError, match="has no address"):
        Fetcher(["example.com"], resolve=lambda *_: []).fetch("https://example.com/", io.BytesIO())
    stranger = Fetcher(["example.com:9"], resolve=rig.resolve, is_allowed=lambda _: True)
    with pytest.raises(FetchError, match="refused"):
        stranger.fetch("https://example.com:9/", io.BytesIO())


def test_a_certificate_of_another_name_or_of_nobody_is_refused(rig: Rig) -> None:
    server = rig.serve(plain(b"secret"), plain(b"secret"))
    other = f"wrong.example.org:{server.port}"
    with pytest.raises(FetchError, match="certificate"):
        Fetcher([other], resolve=rig.resolve, tls=rig.tls(), is_allowed=lambda _: True).fetch(
            f"https://{other}/", io.BytesIO()
        )
    known = f"example.com:{server.port}"
    with pytest.raises(FetchError, match="certificate"):
        Fetcher([known], resolve=rig.resolve, is_allowed=lambda _: True).fetch(f"https://{known}/", io.BytesIO())
    assert server.asked == []


def never(*_: object) -> Sequence[str]:
    raise AssertionError("a name was resolved before it was allowed")


def test_without_hosts_it_is_off() -> None:
    with pytest.raises(FetchRefusedError, match="is off"):
        Fetcher([], resolve=never).fetch("https://example.com/", io.BytesIO())


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "https://",
        "https:///x",
        "http://example.com/",
        "ftp://example.com/",
        "//example.com/",
        " https://example.com/",
        "https://example.com/ ",
        "https://example.com/\r\nHost: evil",
        "https://exam\tple.com/",
        "https://example.com@evil.org/",
        "https://example.com:443@evil.org/",
        "https://user:word@example.com/",
        "https://@example.com/",
        "https://evil.org\\@example.com/",
        "https://evil.org#@example.com/",
        "https://evil.org?@example.com/",
        "https://evil.org/@example.com/",
        "https://example.com.evil.org/",
        "https://evilexample.com/",
        "https://sub.example.com/",
        "https://example.com./",
        "https://example.com../",
        "https://.example.com/",
        "https://example..com/",
        "https://-example.com/",
        "https://example.com:/",
        "https://example.com:0/",
        "https://example.com:22/",
        "https://example.com:65979/",
        "https://example.com:4430/",
        "https://example.com:443:443/",
        "https://example%2ecom/",
        "https://ex\u00e4mple.com/",
        "https://\u212aelvin.example.net/",
        "https://example\u3002com/",
        "https://\uff45xample.com/",
        "https://example.com/\u00e4",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://localhost/",
        "https://" + "a" * 64 + ".example.net/",
        "https://" + "a." * 130 + "example.net/",
    ],
)
def test_tricks_are_refused_before_a_name_is_resolved(uri: str) -> None:
    fetcher = Fetcher(["example.com", "*.example.net"], resolve=never, tls=NO_ONE)
    with pytest.raises(FetchRefusedError):
        fetcher.fetch(uri, io.BytesIO())


@contextmanager
def resolving(*hosts: str) -> Iterator[Callable[[str], list[tuple[str, int]]]]:
    """What a fetcher for these hosts would resolve."""

    def asked(uri: str) -> list[tuple[str, int]]:
        result: list[tuple[str, int]] = []

        def note(host: str, port: int) -> Sequence[str]:
            result.append((host, port))
            return []

        with pytest.raises(FetchError):
            Fetcher(hosts, resolve=note, tls=NO_ONE).fetch(uri, io.BytesIO())
        return result

    yield asked


def test_which_hosts_an_entry_allows() -> None:
    with resolving("Example.COM", "*.example.net", "xn--exmple-cua.com", "example.org:8443") as asked:
        assert asked("HTTPS://EXAMPLE.com") == [("example.com", 443)]
        assert asked("https://example.com:443?x") == [("example.com", 443)]
        assert asked("https://a.b.example.net/") == [("a.b.example.net", 443)]
        assert asked("https://example.net/") == []
        assert asked("https://a.example.net:8443/") == []
        assert asked("https://xn--exmple-cua.com/") == [("xn--exmple-cua.com", 443)]
        assert asked("https://example.org:8443/") == [("example.org", 8443)]
        assert asked("https://example.org/") == []


@pytest.mark.parametrize(
    "host",
    ["", "*", "*.", "*.com", "*.*.example.com", "a.*.com", "127.0.0.1", "[::1]", "https://example.com", "example.com/",
     "ex\u00e4mple.com", "example.com.", "example.com:0", "example.com:x", "me@example.com"],
)  # fmt: skip
def test_an_entry_must_be_a_host(host: str) -> None:
    with pytest.raises(InvalidInputError):
        Fetcher([host])


@pytest.mark.parametrize("limits", [{"size": -1}, {"total": 0}, {"silence": 0}, {"redirects": 11}, {"total": -5}])
def test_limits_must_make_sense(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError):
        FetchLimits(**limits)


@given(uri=st.text() | st.from_regex(r"https://[a-z@:\\/.\[\]%#?]{0,20}example\.com[a-z@:\\/.\[\]%#?]{0,20}"))
def test_whatever_is_asked_only_the_allowed_host_is_resolved(uri: str) -> None:
    with resolving("example.com") as asked:
        assert asked(uri) in ([], [("example.com", 443)])


NOT_PUBLIC = (
    "0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 169.254.169.254 172.16.0.1 192.0.0.1 192.0.2.1 192.88.99.1 192.168.0.1 "
    "198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 "
    ":: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 100::1 2001::1 "
    "2001:db8::1 2002:7f00:1:: 2002:808:808:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 "
    "ff02::1 ff0e::1 2606:4700::1%eth0"
)


@pytest.mark.parametrize("text", NOT_PUBLIC.split())
def test_addresses_inside_are_not_public(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))
    fetcher = Fetcher(["example.com"], resolve=lambda *_: [text], tls=NO_ONE)
    with pytest.raises(FetchRefusedError, match="not on the public internet"):
        fetcher.fetch("https://example.com/", io.BytesIO())


@pytest.mark.parametrize("text", ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001::1"])
def test_addresses_outside_are_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


def test_the_system_resolves_localhost_and_it_is_refused() -> None:
    with pytest.raises(FetchRefusedError, match="not on the public internet"):
        Fetcher(["localhost"]).fetch("https://localhost/", io.BytesIO())


def test_a_blob_can_be_fetched_straight_into_its_store(rig: Rig, tmp_path: Path) -> None:
    blobs = open_blobs(str(tmp_path))
    server = rig.serve(plain(b"content"), plain(b"content"))
    uri = f"https://files.example.com:{server.port}/"
    with blobs.begin() as writing:
        got = rig.fetcher().fetch(uri, writing)
        assert writing.commit() == (writing.key, got.sha256, got.size)
    with pytest.raises(BlobTooLargeError), blobs.begin(limit=3) as writing:
        rig.fetcher().fetch(uri, writing)


def test_an_error_of_the_sink_is_its_own(rig: Rig) -> None:
    class Full(io.BytesIO):
        def write(self, _chunk: object, /) -> int:
            raise OSError(28, "No space left on device")

    server = rig.serve(plain(b"content"))
    with pytest.raises(OSError, match="No space left"):
        rig.fetcher().fetch(f"https://files.example.com:{server.port}/", Full())


def test_errors_never_show_more_of_a_uri_than_its_host(rig: Rig) -> None:
    server = rig.serve(answer(status="403 No"), redirect("https://evil.example.org/?token=hunter2"))
    for start in ("https://files.example.com", "https://evil.example.org", "https://me:hunter2@files.example.com"):
        with pytest.raises(FetchError) as exception_info:
            rig.fetcher().fetch(f"{start}:{server.port}/hunter2?token=hunter2", io.BytesIO())
        assert "hunter2" not in str(exception_info.value)

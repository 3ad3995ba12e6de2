"""Servers on this machine that answer by a script, and a fetcher whose names lead to them.

The servers are real, and their certificate is the test's.
"""

import io
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from inturn.fetch import Fetcher, FetchLimits, FetchResult

NAMES = ("files.example.com", "other.example.com", "example.com")
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


class FetchHarness:
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
def fetch_harness(certificate: Path) -> Iterator[FetchHarness]:
    made = FetchHarness(certificate)
    yield made
    for server in made.servers:
        server.stop()


def ragged(body: bytes, **headers: str) -> Script:
    whole = answer(body, **headers)

    def script(talk: ssl.SSLSocket) -> None:
        talk.unwrap = lambda: talk  # type: ignore[method-assign]  # closes without TLS's word of farewell
        whole(talk)

    return script

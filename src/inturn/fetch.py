"""Fetch documents that were submitted as a `uri`. Off until an operator names the allowed hosts.

A uri comes from a customer and is requested from inside the operator's network, so the order of checks matters. The uri
is parsed strictly, its host must be on the list, and its name is resolved once. Every address is checked, and the
connection goes to one of these addresses. A redirect starts again with the first check. Errors name only the host: the
rest of a uri may be a secret.
"""

import hashlib
import http.client
import io
import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urljoin

from inturn.errors import FetchError, FetchRefusedError, InturnError, InvalidInputError
from inturn.values import SECOND, clean_time

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host and port, as text."""

_CHUNK_BYTES: Final = 64 * 1024
_HTTPS_PORT: Final = 443
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close", "User-Agent": "inturn"}
_LABEL: Final = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST: Final = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}")
_NUMERIC_LABEL: Final = re.compile("[0-9]+|0x[0-9a-f]*")
_URI: Final = re.compile(
    r"https://(?P<authority>[a-z0-9._:-]+)(?P<rest>(?:[/?#][a-z0-9._~:/?#\[\]@!$&'()*+,;=%|-]*)?)",
    re.ASCII | re.IGNORECASE,  # without ASCII the Kelvin sign would pass for a k
)
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # relays from IPv6 to IPv4
        "2001::/23",  # Teredo and others that carry another address inside
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address inside
        "3fff::/20",  # documentation
    )
)


class FetchResult(NamedTuple):
    """A fetched document: its size, its hash, and the type that the server sent."""

    size: int
    sha256: str
    media_type: str | None


class Sink(Protocol):
    """Receives bytes: a file, or a blob writer."""

    def write(self, chunk: bytes, /) -> object:
        """Write the whole chunk."""
        ...


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of a fetch: bytes, microseconds in all, microseconds without data, redirects."""

    size: int = 50 * 1024 * 1024
    total: int = 120 * SECOND
    silence: int = 15 * SECOND
    redirects: int = 3

    def __post_init__(self) -> None:
        clean_time("total", self.total)
        clean_time("silence", self.silence)
        if self.size < 0 or not 0 <= self.redirects <= 10 or not self.total or not self.silence:
            raise InvalidInputError("limits of fetching are a size of 0 or more, times above 0, and 0 to 10 redirects")


class _ParsedUri(NamedTuple):
    host: str
    port: int
    target: str
    uri: str


def is_public(address: Address) -> bool:
    """Return whether an address is on the public internet: unicast, and without another address embedded in it."""
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address in _GLOBAL_UNICAST and address.is_global and address.scope_id is None
    return address.is_global and not address.is_multicast and not address.is_reserved


def resolve(host: str, port: int) -> Sequence[str]:
    """Resolve a host's addresses with the system's resolver."""
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class Fetcher:
    """Fetches from the given hosts and from no others.

    A host is a name such as `files.example.com`, or `*.example.com` for every name below example.com (not that name
    itself). The default port is 443. Tests can replace the resolver, the TLS context and the check of addresses.
    """

    def __init__(
        self,
        hosts: Iterable[str],
        limits: FetchLimits | None = None,
        *,
        resolve: Resolver = resolve,
        tls: ssl.SSLContext | None = None,
        is_allowed: Callable[[Address], bool] = is_public,
    ) -> None:
        self._hosts: Final = frozenset(_clean_host(host) for host in hosts)
        self._limits: Final = limits or FetchLimits()
        self._resolve: Final = resolve
        self._tls: Final = tls or ssl.create_default_context()
        self._is_allowed: Final = is_allowed

    def fetch(self, uri: str, into: Sink) -> FetchResult:
        """Copy a document into the sink. After an error the sink may hold a part of it, to be discarded."""
        deadline = _Deadline(self._limits)
        parsed = self._require_allowed(uri)
        for _ in range(self._limits.redirects + 1):
            with self._request(parsed, deadline) as response:
                if response.status not in _REDIRECT_STATUSES:
                    return self._receive(response, parsed.host, into)
                parsed = self._require_allowed(_redirect_uri(parsed, response))
        raise FetchRefusedError(f"{parsed.host}: more than {self._limits.redirects} redirects")

    def _require_allowed(self, uri: str) -> _ParsedUri:
        if not self._hosts:
            raise FetchRefusedError(
                "fetching documents by uri is off: name the hosts with --fetch (setting fetch), or send the file itself"
            )
        parsed = _parse_uri(uri)
        names = [parsed.host, *(f"*.{parsed.host.split('.', n)[n]}" for n in range(1, parsed.host.count(".") + 1))]
        if not any((name, parsed.port) in self._hosts for name in names):
            name = parsed.host if parsed.port == _HTTPS_PORT else f"{parsed.host}:{parsed.port}"
            raise FetchRefusedError(
                f"{name} is not among the hosts that documents may be fetched from: add it to --fetch (setting fetch),"
                f" or send the file itself"
            )
        return parsed

    def _resolve_public(self, parsed: _ParsedUri) -> Sequence[str]:
        """Resolve a host once: a name server could give another, private address the next time."""
        with _translate_errors(parsed.host):
            addresses = self._resolve(parsed.host, parsed.port)
        if not addresses:
            raise FetchError(f"{parsed.host} has no address")
        if not all(self._is_allowed(ipaddress.ip_address(text)) for text in addresses):
            raise FetchRefusedError(f"{parsed.host} leads to an address that is not on the public internet")
        return addresses

    @contextmanager
    def _request(self, parsed: _ParsedUri, deadline: "_Deadline") -> Iterator[http.client.HTTPResponse]:
        connection = _Connection(parsed, self._resolve_public(parsed), self._tls, deadline)
        try:
            with _translate_errors(parsed.host):
                connection.request("GET", parsed.target, headers=_HEADERS)
                response = connection.getresponse()
            with response:
                yield response
        finally:
            connection.close()

    def _receive(self, response: http.client.HTTPResponse, host: str, into: Sink) -> FetchResult:
        if response.status != http.HTTPStatus.OK:
            raise FetchError(f"{host} answered with status {response.status}")
        if (response.getheader("Content-Encoding") or "identity").strip().lower() != "identity":
            raise FetchError(f"{host} sent a compressed answer although it was asked not to")
        size, digest = 0, hashlib.sha256()
        for chunk in _chunks(response, host):
            size += len(chunk)
            if size + (response.length or 0) > self._limits.size:
                raise FetchRefusedError(f"{host}: the document has more than the allowed {self._limits.size:,} bytes")
            digest.update(chunk)
            into.write(chunk)
        return FetchResult(size, digest.hexdigest(), _media_type(response))


class _Deadline:
    """The end of a fetch, which a server cannot delay by sending a little at a time."""

    def __init__(self, limits: FetchLimits) -> None:
        self._expires_at = time.monotonic() + limits.total / SECOND
        self._idle_timeout = limits.silence / SECOND

    def remaining(self) -> float:
        """Return the seconds that the next step may take."""
        left = self._expires_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("took too long in all")
        return min(left, self._idle_timeout)


class _Connection(http.client.HTTPConnection):
    """Connects to a checked address, without a proxy, and verifies the certificate of the host."""

    default_port = _HTTPS_PORT

    def __init__(self, parsed: _ParsedUri, addresses: Sequence[str], tls: ssl.SSLContext, deadline: _Deadline) -> None:
        super().__init__(parsed.host, parsed.port)
        self._addresses = addresses
        self._tls = tls
        self._deadline = deadline

    def connect(self) -> None:
        """Connect to the first address that answers."""
        plain = self._connect_first()
        try:
            plain.settimeout(self._deadline.remaining())
            # A body without a length ends with the connection: without TLS's close_notify it may be cut off.
            secured = self._tls.wrap_socket(plain, server_hostname=self.host, suppress_ragged_eofs=False)
        except BaseException:
            plain.close()
            raise
        self.sock = _TimedSocket(secured, self._deadline)

    def _connect_first(self) -> socket.socket:
        last_error: OSError | None = None
        for address in self._addresses:
            try:
                return socket.create_connection((address, self.port), timeout=self._deadline.remaining())
            except OSError as error:
                last_error = error
        raise last_error or OSError("has no address")


class _TimedSocket:
    """The socket methods that http.client uses, with a new timeout for each call."""

    def __init__(self, tls_socket: ssl.SSLSocket, deadline: _Deadline) -> None:
        self._tls_socket = tls_socket
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        self._tls_socket.settimeout(self._deadline.remaining())
        self._tls_socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._tls_socket, self._deadline), _CHUNK_BYTES)

    def close(self) -> None:
        self._tls_socket.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, tls_socket: ssl.SSLSocket, deadline: _Deadline) -> None:
        self._inner = tls_socket.makefile("rb", buffering=0)  # keeps the socket open until this is closed too
        self._tls_socket = tls_socket
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        self._tls_socket.settimeout(self._deadline.remaining())
        return self._inner.readinto(buffer)

    def close(self) -> None:
        self._inner.close()
        super().close()


@contextmanager
def _translate_errors(host: str) -> Iterator[None]:
    """Turn errors of the network into FetchError, without text that a server sent."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise FetchError(f"{host}: its certificate was refused: {error.verify_message}") from error
    except OSError as error:
        raise FetchError(f"{host} cannot be reached: {error.strerror or error}") from error
    except http.client.HTTPException as error:
        raise FetchError(f"{host} sent an invalid HTTP response ({type(error).__name__})") from error


def _chunks(response: http.client.HTTPResponse, host: str) -> Iterator[bytes]:
    while True:
        with _translate_errors(host):
            chunk = response.read1(_CHUNK_BYTES)
        if not chunk:
            break
        yield chunk
    if response.length:
        raise FetchError(f"{host} closed the connection before the end of the document")


def _parse_uri(uri: str) -> _ParsedUri:
    """Parse a uri that all parsers read alike: no user name, no bare IP address, only ASCII."""
    match = _URI.fullmatch(uri)
    if not match:
        raise FetchRefusedError(
            "a uri to fetch must be https://host/path, without a user name; other alphabets as xn-- and percent-encoded"
        )
    return _ParsedUri(*_host_and_port(match["authority"], FetchRefusedError), _request_target(match["rest"]), uri)


def _request_target(rest: str) -> str:
    target = rest.partition("#")[0]
    return target if target.startswith("/") else f"/{target}"


def _host_and_port(text: str, error_type: type[InturnError]) -> tuple[str, int]:
    host, colon, port = text.lower().partition(":")
    number = int(port) if re.fullmatch("[0-9]{1,5}", port) else (0 if colon else _HTTPS_PORT)
    if not _HOST.fullmatch(host) or len(host) > 253 or _NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]):
        raise error_type(
            "documents are fetched from a host with a name such as files.example.com, not from a bare IP address"
        )
    if not 0 < number < 65_536:
        raise error_type(f"{host}: a port is a number from 1 to 65535")
    return host, number


def _clean_host(text: str) -> tuple[str, int]:
    """Parse an entry of the list of hosts; the asterisk stays in the name."""
    star = "*." if text.startswith("*.") else ""
    host, port = _host_and_port(text.removeprefix("*."), InvalidInputError)
    if star and "." not in host:
        raise InvalidInputError(f"{text} would allow a whole top-level domain; name the domain, such as *.example.com")
    return star + host, port


def _redirect_uri(parsed: _ParsedUri, response: http.client.HTTPResponse) -> str:
    target = response.getheader("Location")
    if not target:
        raise FetchError(f"{parsed.host} redirects to nowhere")
    try:
        return urljoin(parsed.uri, target)
    except ValueError as error:
        raise FetchRefusedError(f"{parsed.host} redirects to something that is not a uri") from error


def _media_type(response: http.client.HTTPResponse) -> str | None:
    text = (response.getheader("Content-Type") or "").partition(";")[0].strip().lower()
    return text if _MEDIA_TYPE.fullmatch(text) else None

"""Fetches documents that were given as a `uri`. Off until an operator names the hosts that may be asked.

A uri comes from a stranger and is followed from inside the operator's network, so the order of the checks matters:
the uri is parsed strictly, its host looked up in the list, its name resolved once, every answer checked, and the
connection made to one of those very answers. A redirect starts again from the first check. Errors name the host
alone: the rest of a uri may be somebody's secret.
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
from inturn.model import SECOND, clean_time

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Sequence[str]]
"""The addresses of a host and port, as text."""

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
    """What came: its length, its hash, and the type that the server claims."""

    size: int
    sha256: str
    media_type: str | None


class Sink(Protocol):
    """Takes bytes: a file, or a blob that is being written."""

    def write(self, chunk: bytes, /) -> object:
        """Take all of the chunk."""
        ...


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much a server may cost us: bytes, microseconds in all, microseconds of silence, redirects."""

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
    """A uri, taken apart."""

    host: str
    port: int
    target: str
    uri: str


def is_public(address: Address) -> bool:
    """Whether an address is one of the open internet: unicast, and not a disguise of another address."""
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address in _GLOBAL_UNICAST and address.is_global and address.scope_id is None
    return address.is_global and not address.is_multicast and not address.is_reserved


def resolve(host: str, port: int) -> Sequence[str]:
    """Ask the system for a host's addresses."""
    return [str(result[4][0]) for result in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class Fetcher:
    """Fetches from the hosts it was given and from no others.

    A host is a name such as `files.example.com`, or `*.example.com` for every name below example.com (not that name
    itself). Without a port it means 443. What resolves names, verifies certificates and judges addresses can be
    replaced in tests.
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
        """Copy what the uri points to. After an error the sink holds a part at most: throw it away."""
        deadline = _Deadline(self._limits)
        place = self._require_allowed(uri)
        for _ in range(self._limits.redirects + 1):
            with self._request(place, deadline) as answer:
                if answer.status not in _REDIRECT_STATUSES:
                    return self._receive(answer, place.host, into)
                place = self._require_allowed(_redirect_uri(place, answer))
        raise FetchRefusedError(f"{place.host}: more than {self._limits.redirects} redirects")

    def _require_allowed(self, uri: str) -> _ParsedUri:
        if not self._hosts:
            raise FetchRefusedError(
                "fetching documents by uri is off: name the hosts with --fetch (setting fetch), or send the file itself"
            )
        place = _parse_uri(uri)
        names = [place.host, *(f"*.{place.host.split('.', n)[n]}" for n in range(1, place.host.count(".") + 1))]
        if not any((name, place.port) in self._hosts for name in names):
            name = place.host if place.port == _HTTPS_PORT else f"{place.host}:{place.port}"
            raise FetchRefusedError(
                f"{name} is not among the hosts that documents may be fetched from: add it to --fetch (setting fetch),"
                f" or send the file itself"
            )
        return place

    def _resolve_public(self, parsed: _ParsedUri) -> Sequence[str]:
        """Resolved once, here: whoever answers differently the next time is never asked a next time."""
        with _translate_errors(parsed.host):
            result = self._resolve(parsed.host, parsed.port)
        if not result:
            raise FetchError(f"{parsed.host} has no address")
        if not all(self._is_allowed(ipaddress.ip_address(text)) for text in result):
            raise FetchRefusedError(f"{parsed.host} leads to an address that is not on the public internet")
        return result

    @contextmanager
    def _request(self, parsed: _ParsedUri, deadline: "_Deadline") -> Iterator[http.client.HTTPResponse]:
        connection = _Connection(parsed, self._resolve_public(parsed), self._tls, deadline)
        try:
            with _translate_errors(parsed.host):
                connection.request("GET", parsed.target, headers=_HEADERS)
                answer = connection.getresponse()
            with answer:
                yield answer
        finally:
            connection.close()

    def _receive(self, response: http.client.HTTPResponse, host: str, into: Sink) -> FetchResult:
        if response.status != http.HTTPStatus.OK:
            raise FetchError(f"{host} answered with status {response.status}")
        if (response.getheader("Content-Encoding") or "identity").strip().lower() != "identity":
            raise FetchError(f"{host} sent a compressed answer although it was asked not to")
        size, summed = 0, hashlib.sha256()
        for chunk in _chunks(response, host):
            size += len(chunk)
            if size + (response.length or 0) > self._limits.size:
                raise FetchRefusedError(f"{host}: the document has more than the allowed {self._limits.size:,} bytes")
            summed.update(chunk)
            into.write(chunk)
        return FetchResult(size, summed.hexdigest(), _media_type(response))


class _Deadline:
    """When all has to be over, however often the server sends a little."""

    def __init__(self, limits: FetchLimits) -> None:
        self._expires_at = time.monotonic() + limits.total / SECOND
        self._idle_timeout = limits.silence / SECOND

    def remaining(self) -> float:
        """Seconds that the next step may take."""
        left = self._expires_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("took too long in all")
        return min(left, self._idle_timeout)


class _Connection(http.client.HTTPConnection):
    """Speaks to an address that was checked, and expects the certificate of the host. It knows no proxies."""

    default_port = _HTTPS_PORT

    def __init__(self, parsed: _ParsedUri, addresses: Sequence[str], tls: ssl.SSLContext, deadline: _Deadline) -> None:
        super().__init__(parsed.host, parsed.port)
        self._addresses = addresses
        self._tls = tls
        self._deadline = deadline

    def connect(self) -> None:
        """Take the first address that answers."""
        plain = self._connect_first()
        try:
            plain.settimeout(self._deadline.remaining())
            # A body without a length ends with the connection: an end that TLS did not announce is no end.
            secured = self._tls.wrap_socket(plain, server_hostname=self.host, suppress_ragged_eofs=False)
        except BaseException:
            plain.close()
            raise
        self.sock = _TimedSocket(secured, self._deadline)

    def _connect_first(self) -> socket.socket:
        trouble: OSError | None = None
        for address in self._addresses:
            try:
                return socket.create_connection((address, self.port), timeout=self._deadline.remaining())
            except OSError as error:
                trouble = error
        raise trouble or OSError("has no address")


class _TimedSocket:
    """What http.client needs of a socket, with a fresh timeout for each step."""

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
    """Turn the network's errors into ours. What a server wrote is not repeated."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise FetchError(f"{host}: its certificate was refused: {error.verify_message}") from error
    except OSError as error:
        raise FetchError(f"{host} cannot be reached: {error.strerror or error}") from error
    except http.client.HTTPException as error:
        raise FetchError(f"{host} does not speak HTTP as it should ({type(error).__name__})") from error


def _chunks(response: http.client.HTTPResponse, host: str) -> Iterator[bytes]:
    while True:
        with _translate_errors(host):
            chunk = response.read1(_CHUNK_BYTES)
        if not chunk:
            break
        yield chunk
    if response.length:
        raise FetchError(f"{host} broke off before the end")


def _parse_uri(uri: str) -> _ParsedUri:
    """Only what every reader of addresses reads the same way: no user name, no bare IP address, nothing but ASCII."""
    match = _URI.fullmatch(uri)
    if not match:
        raise FetchRefusedError(
            "a uri to fetch must be https://host/path, without a user name; other alphabets as xn-- and percent-encoded"
        )
    return _ParsedUri(*_host_and_port(match["authority"], FetchRefusedError), _request_target(match["rest"]), uri)


def _request_target(rest: str) -> str:
    asked = rest.partition("#")[0]
    return asked if asked.startswith("/") else f"/{asked}"


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
    """An entry of the list; the asterisk stays in the name."""
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
        raise FetchRefusedError(f"{parsed.host} redirects to something that is no address") from error


def _media_type(response: http.client.HTTPResponse) -> str | None:
    text = (response.getheader("Content-Type") or "").partition(";")[0].strip().lower()
    return text if _MEDIA_TYPE.fullmatch(text) else None

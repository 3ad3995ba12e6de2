"""Whom a fetch may ask: the hosts that an operator allows, by public addresses alone."""

import io
import ipaddress
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.errors import FetchError, FetchRefusedError, InvalidInputError
from inturn.fetch import Fetcher, FetchLimits, is_public

NO_ONE = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody, and is made much faster than one that trusts the system's authorities."""


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

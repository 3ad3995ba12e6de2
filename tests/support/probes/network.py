"""Speaking to others: TCP, UDP, sockets in the file system, the kernel's own."""

import socket

from .registry import (
    Targets,
    probe,
)


@probe
def tcp(targets: Targets) -> None:
    socket.create_connection(("127.0.0.1", targets["port"])).close()


@probe
def tcp_listen(_: Targets) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()


@probe
def udp(_: Targets) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.sendto(b"x", ("127.0.0.1", 9))


@probe
def udp6(_: Targets) -> None:
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()


@probe
def local_socket(targets: Targets) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(targets["socket"])


@probe
def abstract_socket(targets: Targets) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(f"\0{targets['abstract']}")


@probe
def datagram_by_pair(targets: Targets) -> None:
    """A pair of datagram sockets can be sent from to anybody's."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"x", targets["datagrams"])


@probe
def datagram_by_message(targets: Targets) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, other:
        other.shutdown(socket.SHUT_RD)
        try:
            one.sendmsg([b"x"], [], 0, targets["datagrams"])
        except BrokenPipeError:
            return


@probe
def netlink(_: Targets) -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()


@probe
def packets(_: Targets) -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()

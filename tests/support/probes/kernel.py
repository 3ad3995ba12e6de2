"""What the kernel offers beside files and processes: name spaces, mounts, rings, keys."""

import ctypes
import os
import signal

from .registry import (
    Targets,
    call,
    probe,
)


@probe
def user_namespace(_: Targets) -> None:
    call("unshare", 0x10000000)


@probe
def enter_namespace(_: Targets) -> None:
    call("setns", -1, 0)


@probe
def clone_namespace(_: Targets) -> None:
    process = call("clone", 0x10000000 | signal.SIGCHLD, None, None, None, None)
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)


@probe
def mount(_: Targets) -> None:
    call("mount", b"none", b"/nonexistent", b"tmpfs", 0, None)


@probe
def open_file_system(_: Targets) -> None:
    call("fsopen", b"tmpfs", 0)


@probe
def io_uring(_: Targets) -> None:
    os.close(call("io_uring_setup", 4, ctypes.create_string_buffer(120)))


@probe
def keyring(_: Targets) -> None:
    call("add_key", b"user", b"inturn-probe", b"x", 1, -2)


@probe
def keyring_search(_: Targets) -> None:
    call("keyctl", 0, -4, 0)


@probe
def bpf(_: Targets) -> None:
    call("bpf", 0, None, 0)


@probe
def performance_events(_: Targets) -> None:
    call("perf_event_open", None, 0, -1, -1, 0)


@probe
def page_faults(_: Targets) -> None:
    os.close(call("userfaultfd", 1))  # UFFD_USER_MODE_ONLY


@probe
def shared_memory(_: Targets) -> None:
    call("shmget", 0x1D7A2, 4096, 0o1600)


@probe
def message_queue(_: Targets) -> None:
    os.close(call("mq_open", b"inturn-probe", os.O_CREAT | os.O_RDWR, 0o600, None))

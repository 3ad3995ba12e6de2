"""Other processes: signals, memory, limits, new programs."""

import ctypes
import errno
import fcntl
import os
import resource
import struct

from .registry import (
    LIBC,
    Targets,
    call,
    probe,
    require_success,
)


@probe
def signal_worker(targets: Targets) -> None:
    os.kill(targets["worker"], 0)


@probe
def signal_parent(_: Targets) -> None:
    os.kill(os.getppid(), 0)


@probe
def signal_own_group(_: Targets) -> None:
    os.kill(0, 0)


@probe
def signal_all_processes(_: Targets) -> None:
    os.kill(-1, 0)


@probe
def signal_thread(targets: Targets) -> None:
    call("tgkill", targets["worker"], targets["worker"], 0)


@probe
def signal_task(targets: Targets) -> None:
    call("tkill", targets["worker"], 0)


@probe
def queue_signal(targets: Targets) -> None:
    information = ctypes.create_string_buffer(struct.pack("iii", 0, 0, -1), 128)
    call("rt_sigqueueinfo", targets["worker"], 0, information)


@probe
def signal_by_pipe(targets: Targets) -> None:
    """F_SETOWN: the kernel sends the signal when the pipe can be read."""
    reading, writing = os.pipe()
    try:
        fcntl.fcntl(reading, fcntl.F_SETOWN, targets["worker"])
    finally:
        os.close(reading)
        os.close(writing)


@probe
def open_process(targets: Targets) -> None:
    os.close(call("pidfd_open", targets["worker"], 0))


@probe
def take_descriptor(_: Targets) -> None:
    call("pidfd_getfd", -1, 0, 0)


@probe
def signal_by_descriptor(_: Targets) -> None:
    call("pidfd_send_signal", -1, 0, None, 0)


@probe
def trace(targets: Targets) -> None:
    call("ptrace", 0x4206, targets["worker"], None, None)  # PTRACE_SEIZE


@probe
def read_memory(targets: Targets) -> None:
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    call("process_vm_readv", targets["worker"], vector, 1, vector, 1, 0)


@probe
def limit_worker(targets: Targets) -> None:
    resource.prlimit(targets["worker"], resource.RLIMIT_NOFILE)


@probe
def slow_worker(targets: Targets) -> None:
    os.setpriority(os.PRIO_PROCESS, targets["worker"], os.getpriority(os.PRIO_PROCESS, targets["worker"]))


@probe
def pin_worker(targets: Targets) -> None:
    os.sched_setaffinity(targets["worker"], os.sched_getaffinity(targets["worker"]))


@probe
def outlive_worker(_: Targets) -> None:
    """Let the worker die without it."""
    require_success(LIBC.prctl(1, 9, 0, 0, 0))


@probe
def fork(_: Targets) -> None:
    process = os.fork()
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)


@probe
def start_program(_: Targets) -> None:
    process = os.posix_spawn("/bin/true", ["true"], {})
    if os.waitpid(process, 0)[1] != 0:
        raise PermissionError(errno.EACCES, "it did not start")


@probe
def replace_program(_: Targets) -> None:
    try:
        os.execv("/nonexistent", ["nonexistent"])  # noqa: S606 - the path is not even looked for
    except FileNotFoundError:
        return

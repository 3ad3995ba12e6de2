"""What a parser that was taken over would try. A probe raises OSError when it is refused, and returns when it passes.

Runs inside boxed children, as a stand-in for kreuzberg or as a processor, and outside as the control: a probe that is
refused there as well shows nothing. Everything it changes is a victim that the test made for it.
"""

import array
import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

REFUSED_ERRNOS = (errno.EPERM, errno.EACCES, errno.EXDEV)
"""The last is Landlock's answer to a link or a move out of a folder."""
MACHINE_COLUMN = 0 if os.uname().machine == "x86_64" else 1
SYSCALL_NUMBERS = {  # on x86_64 and aarch64
    "chown_at": (260, 54),
    "fchmodat2": (452, 452),
    "setxattrat": (463, 463),
    "utimensat": (280, 88),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "kcmp": (312, 272),
    "unshare": (272, 97),
    "setns": (308, 268),
    "clone": (56, 220),
    "mount": (165, 40),
    "fsopen": (430, 430),
    "chroot": (161, 51),
    "io_uring_setup": (425, 425),
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    "open_by_handle_at": (304, 265),
    "sched_setaffinity": (203, 122),
}
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def call(name: str, *arguments: Any) -> int:
    converted = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = int(LIBC.syscall(ctypes.c_long(SYSCALL_NUMBERS[name][MACHINE_COLUMN]), *converted))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def require_success(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "libc")


Targets = dict[str, Any]
Probe = Callable[[Targets], Any]
PROBES: dict[str, Probe] = {}


def probe(function: Probe) -> Probe:
    PROBES[function.__name__] = function
    return function


# -- reading --------------------------------------------------------------------------------------------------------


def _add_read_probe(name: str) -> None:
    def read(targets: Targets) -> None:
        with Path(targets[name]).open("rb") as file:
            file.read(16)

    PROBES[f"read_{name}"] = read


def _add_list_probe(name: str) -> None:
    PROBES[f"list_{name}"] = lambda targets: list(Path(targets[name]).iterdir())


for _name in ("store", "wal", "gate", "blob", "secret", "scratch_file"):
    _add_read_probe(_name)
for _name in ("folder", "blobs", "scratch"):
    _add_list_probe(_name)


@probe
def read_others_environment(targets: Targets) -> None:
    Path(f"/proc/{targets['worker']}/environ").read_bytes()


@probe
def list_processes(_: Targets) -> None:
    next(Path("/proc").iterdir())


@probe
def read_by_handle(_: Targets) -> None:
    call("open_by_handle_at", -1, ctypes.create_string_buffer(64), 0)


@probe
def watch_blobs(targets: Targets) -> None:
    file = LIBC.inotify_init1(0)
    if file < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    if LIBC.inotify_add_watch(file, os.fsencode(targets["blobs"]), 0x100) < 0:
        raise OSError(ctypes.get_errno(), "inotify_add_watch")


@probe
def watch_all_files(_: Targets) -> None:
    call("fanotify_init", 0x200, 0)  # FAN_REPORT_FID, which needs no capability


# -- changing files -------------------------------------------------------------------------------------------------


def _victim(targets: Targets, name: str) -> Path:
    return Path(targets["victims"], name)


@probe
def write_file(targets: Targets) -> None:
    _victim(targets, "write").open("r+b").write(b"x")


@probe
def make_file(targets: Targets) -> None:
    os.close(os.open(_victim(targets, "made"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))


@probe
def make_folder(targets: Targets) -> None:
    _victim(targets, "made folder").mkdir()


@probe
def remove_file(targets: Targets) -> None:
    _victim(targets, "remove").unlink()


@probe
def rename_file(targets: Targets) -> None:
    _victim(targets, "rename").rename(_victim(targets, "renamed"))


@probe
def move_into_scratch(targets: Targets) -> None:
    _victim(targets, "move").rename(Path(targets["own"], "moved"))


@probe
def link_file(targets: Targets) -> None:
    os.link(_victim(targets, "link"), _victim(targets, "linked"))


@probe
def link_into_scratch(targets: Targets) -> None:
    os.link(targets["store"], Path(targets["own"], "linked"))


@probe
def symlink_in_scratch(targets: Targets) -> None:
    Path(targets["own"], "symlink").symlink_to(targets["store"])


@probe
def make_fifo(targets: Targets) -> None:
    os.mkfifo(_victim(targets, "fifo"))


@probe
def truncate_file(targets: Targets) -> None:
    os.truncate(_victim(targets, "truncate"), 0)


@probe
def truncate_readable_file(targets: Targets) -> None:
    """What it may read, opened so that it is cut short: Landlock knows that since its version 3."""
    os.close(os.open(targets["readable"], os.O_RDONLY | os.O_TRUNC))


@probe
def write_shared_memory(_: Targets) -> None:
    path = Path(f"/dev/shm/inturn-probe-{os.getpid()}")  # noqa: S108 - it must not be written
    path.touch()
    path.unlink()


# -- attributes, which Landlock does not cover ----------------------------------------------------------------------


@probe
def chmod(targets: Targets) -> None:
    _victim(targets, "chmod").chmod(0o666)


@probe
def chmod_store(targets: Targets) -> None:
    os.chmod(targets["store"], 0o600)  # noqa: PTH101 - as a hostile parser would


@probe
def chmod_again(targets: Targets) -> None:
    call("fchmodat2", -100, os.fsencode(_victim(targets, "chmod2")), 0o666, 0)


@probe
def chown(targets: Targets) -> None:
    os.chown(_victim(targets, "chown"), -1, os.getgid())


@probe
def chown_at(targets: Targets) -> None:
    call("chown_at", -100, os.fsencode(_victim(targets, "chown2")), -1, os.getgid(), 0x100)


@probe
def utime(targets: Targets) -> None:
    os.utime(_victim(targets, "utime"), (1, 1))


@probe
def utime_now(targets: Targets) -> None:
    call("utimensat", -100, os.fsencode(_victim(targets, "utime2")), None, 0)


@probe
def set_attribute(targets: Targets) -> None:
    os.setxattr(_victim(targets, "xattr"), "user.inturn", b"x")


@probe
def set_attribute_at(targets: Targets) -> None:
    call("setxattrat", -100, os.fsencode(_victim(targets, "xattr2")), 0, b"user.inturn", None, 0)


@probe
def remove_attribute(targets: Targets) -> None:
    os.removexattr(_victim(targets, "has xattr"), "user.inturn")


def _document(targets: Targets) -> int:
    """The descriptor of the document at hand: it is read-only, but its attributes could be changed by it."""
    return int(targets["document"])


@probe
def chmod_document(targets: Targets) -> None:
    os.fchmod(_document(targets), 0o666)


@probe
def chown_document(targets: Targets) -> None:
    os.fchown(_document(targets), -1, os.getgid())


@probe
def utime_document(targets: Targets) -> None:
    os.utime(_document(targets), (1, 1))


@probe
def set_attribute_of_document(targets: Targets) -> None:
    os.setxattr(_document(targets), "user.inturn", b"x")


@probe
def set_flags_of_document(targets: Targets) -> None:
    flags = array.array("L", [0])
    fcntl.ioctl(_document(targets), 0x80086601, flags)  # FS_IOC_GETFLAGS
    flags[0] |= 0x40  # nodump
    fcntl.ioctl(_document(targets), 0x40086602, flags)  # FS_IOC_SETFLAGS


@probe
def write_document(targets: Targets) -> None:
    """A reading descriptor cannot be written to; EBADF says so, wherever."""
    try:
        os.pwrite(_document(targets), b"x", 0)
    except OSError as error:
        raise PermissionError(errno.EACCES, "read-only") from error


# -- the network ----------------------------------------------------------------------------------------------------


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


# -- other processes ------------------------------------------------------------------------------------------------


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


# -- the kernel -----------------------------------------------------------------------------------------------------


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


# -- what came along ------------------------------------------------------------------------------------------------

ALLOWED_VARIABLES = {
    *("MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "RAYON_NUM_THREADS"),
    *("TOKIO_WORKER_THREADS", "OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPJ_NUM_THREADS", "LANG", "PATH", "TMPDIR"),
    *("TESSDATA_PREFIX", "PYTHONPATH", "LC_CTYPE"),
    "LD_LIBRARY_PATH",  # set by kreuzberg itself
}


DESCRIPTOR_KINDS: dict[str, Callable[[int], bool]] = {
    "file": stat.S_ISREG,
    "folder": stat.S_ISDIR,
    "pipe": stat.S_ISFIFO,
    "socket": stat.S_ISSOCK,
    "device": stat.S_ISCHR,
}


class Descriptor(NamedTuple):
    number: int
    mode: int
    kind: str


def descriptors() -> Iterator[Descriptor]:
    """All that are open."""
    for number in range(1024):
        try:
            mode, flags = os.fstat(number).st_mode, fcntl.fcntl(number, fcntl.F_GETFL)
        except OSError:
            continue
        kind = next((name for name, test in DESCRIPTOR_KINDS.items() if test(mode)), "other")
        yield Descriptor(number, flags & os.O_ACCMODE, kind)


@probe
def inherited_descriptors(targets: Targets) -> None:
    """Besides null, the pipe it prints into, its one document and its own channel there is nothing."""
    standard: list[Descriptor] = []
    others: list[Descriptor] = []
    for item in descriptors():
        (standard if item.number <= 2 else others).append(item)
    kinds = sorted(item.kind for item in others if item.number != _document(targets))
    is_one_pipe = os.fstat(1).st_ino == os.fstat(2).st_ino  # the worker's own two are apart here
    if kinds == ["socket"] and [item.kind for item in standard] == ["device", "pipe", "pipe"] and is_one_pipe:
        raise PermissionError(errno.EACCES, "nothing")


@probe
def inherited_environment(_: Targets) -> None:
    if unknown := set(os.environ) - ALLOWED_VARIABLES:
        raise OSError(0, f"it has {unknown}")
    raise PermissionError(errno.EACCES, "nothing")


@probe
def working_directory_imports(targets: Targets) -> None:
    """Whether a module could be loaded from the queue's folder, or from wherever a relative entry leads."""
    entries = [Path(entry) for entry in sys.path]
    if all(entry.is_absolute() and entry != Path(targets["folder"]) for entry in entries):
        raise PermissionError(errno.EACCES, "nothing")


@probe
def be_root(_: Targets) -> None:
    if 0 not in (*os.getresuid(), *os.getresgid(), *os.getgroups()):
        raise PermissionError(errno.EACCES, "no root")


@probe
def become_root(_: Targets) -> None:
    os.setresuid(0, 0, 0)


@probe
def gain_privileges(_: Targets) -> None:
    if LIBC.prctl(39, 0, 0, 0, 0) == 1:  # PR_GET_NO_NEW_PRIVS
        raise PermissionError(errno.EACCES, "none")


@probe
def write_where_root_may(_: Targets) -> None:
    """CAP_DAC_OVERRIDE and all others but CAP_DAC_READ_SEARCH, as the kernel counts them."""
    header, sets = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    require_success(LIBC.capget(header, sets))
    low_effective, low_permitted, _, high_effective, high_permitted, _ = struct.unpack("6I", sets.raw)
    if not (low_effective | low_permitted) & ~(1 << 2) and not high_effective | high_permitted:
        raise PermissionError(errno.EACCES, "none")


def run_all(targets: Targets) -> dict[str, str]:
    """Try everything; "refused", or how it came out."""
    return {name: _outcome(function, targets) for name, function in PROBES.items()}


def run_all_forked(targets: Targets) -> dict[str, str]:
    """The same outside the box, each in a process of its own: what passes may change the process."""
    return {name: _outcome_in_fork(function, targets) for name, function in PROBES.items()}


def _outcome(function: Probe, targets: Targets) -> str:
    try:
        function(targets)
    except OSError as error:
        return "refused" if error.errno in REFUSED_ERRNOS else errno.errorcode.get(error.errno or 0, str(error))
    return "passed"


def _outcome_in_fork(function: Probe, targets: Targets) -> str:
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        os.write(writing, _outcome(function, targets).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as source:
        outcome = source.read().decode()
    os.waitpid(process, 0)
    return outcome


def document_descriptor() -> int:
    """The one plain file that is open for reading; -1 if there is none."""
    plain = (item.number for item in descriptors() if item.kind == "file" and item.mode == os.O_RDONLY)
    return next(plain, -1)


def aim(targets: Targets, worker: int) -> Targets:
    """Add what only the child knows: who its worker is, where it may write, and its document."""
    return {**targets, "worker": worker, "own": str(Path.cwd()), "document": document_descriptor()}

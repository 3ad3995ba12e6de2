"""List system calls that a sandboxed child never needs, by group, with their numbers on each architecture.

It lists refused calls, not allowed ones: a new libc or kreuzberg must not fail because of a call that is not listed.
Numbers are from the kernel's unistd headers. Calls since Linux 5.1 have one number everywhere.
"""

from dataclasses import dataclass
from typing import Final

X86_64: Final = "x86_64"
AARCH64: Final = "aarch64"
AUDIT_ARCHITECTURE: Final = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}


@dataclass(frozen=True, slots=True)
class Call:
    """One system call; None where the architecture does not have it."""

    name: str
    x86_64: int | None
    aarch64: int | None

    def number(self, machine: str) -> int | None:
        """Return its number on an architecture."""
        return self.x86_64 if machine == X86_64 else self.aarch64


def _calls(*calls: tuple[str, int | None, int | None]) -> tuple[Call, ...]:
    return tuple(Call(*call) for call in calls)


def _same_number_calls(**calls: int) -> tuple[Call, ...]:
    return tuple(Call(name, number, number) for name, number in calls.items())


NETWORK: Final = _calls(
    ("socket", 41, 198),
    ("connect", 42, 203),
    ("bind", 49, 200),
    ("listen", 50, 201),
    ("accept", 43, 202),
    ("accept4", 288, 242),
    # Their address is in memory, which a filter cannot read: a pair of datagram sockets would reach any socket.
    ("sendmsg", 46, 211),
    ("sendmmsg", 307, 269),
)
ATTRIBUTES: Final = (
    *_calls(
        ("chmod", 90, None),
        ("fchmod", 91, 52),
        ("fchmodat", 268, 53),
        ("chown", 92, None),
        ("fchown", 93, 55),
        ("lchown", 94, None),
        ("fchownat", 260, 54),
        ("utime", 132, None),
        ("utimes", 235, None),
        ("futimesat", 261, None),
        ("utimensat", 280, 88),
        ("setxattr", 188, 5),
        ("lsetxattr", 189, 6),
        ("fsetxattr", 190, 7),
        ("removexattr", 197, 14),
        ("lremovexattr", 198, 15),
        ("fremovexattr", 199, 16),
        ("truncate", 76, 45),  # by path; Landlock knows it since its version 3
    ),
    *_same_number_calls(fchmodat2=452, setxattrat=463, removexattrat=466, file_setattr=469),
)
"""Landlock covers opening and creating files, not their attributes."""
PROCESSES: Final = (
    *_calls(
        ("ptrace", 101, 117),
        ("process_vm_readv", 310, 270),
        ("process_vm_writev", 311, 271),
        ("kcmp", 312, 272),
        ("migrate_pages", 256, 238),
        ("move_pages", 279, 239),
        ("setpgid", 109, 154),
        ("setsid", 112, 157),
    ),
    *_same_number_calls(
        pidfd_send_signal=424, pidfd_open=434, pidfd_getfd=438, process_madvise=440, process_mrelease=448
    ),
)
PROGRAMS: Final = _calls(("fork", 57, None), ("vfork", 58, None), ("execve", 59, 221), ("execveat", 322, 281))
SHARED_MEMORY: Final = _calls(
    ("shmget", 29, 194),
    ("shmat", 30, 196),
    ("shmctl", 31, 195),
    ("semget", 64, 190),
    ("semop", 65, 193),
    ("semctl", 66, 191),
    ("semtimedop", 220, 192),
    ("msgget", 68, 186),
    ("msgsnd", 69, 189),
    ("msgrcv", 70, 188),
    ("msgctl", 71, 187),
    ("mq_open", 240, 180),
    ("mq_unlink", 241, 181),
)
"""Of System V and POSIX: Landlock does not cover them, and they reach other processes of the same user."""
NAMESPACES: Final = (
    *_calls(
        ("unshare", 272, 97),
        ("setns", 308, 268),
        ("mount", 165, 40),
        ("umount2", 166, 39),
        ("pivot_root", 155, 41),
        ("chroot", 161, 51),
    ),
    *_same_number_calls(
        open_tree=428, move_mount=429, fsopen=430, fsconfig=431, fsmount=432, fspick=433, mount_setattr=442
    ),
    *_same_number_calls(statmount=457, listmount=458, open_tree_attr=467),
)
IO_URING: Final = _same_number_calls(io_uring_setup=425, io_uring_enter=426, io_uring_register=427)
KEYRINGS: Final = _calls(("add_key", 248, 217), ("request_key", 249, 218), ("keyctl", 250, 219))
FILE_WATCHES: Final = _calls(
    ("fanotify_init", 300, 262),
    ("fanotify_mark", 301, 263),
    ("inotify_init", 253, None),
    ("inotify_init1", 294, 26),
    ("inotify_add_watch", 254, 27),
)
"""A watch on the blobs shows the name of every new one; Landlock does not cover it."""
KERNEL: Final = (
    *_calls(
        ("bpf", 321, 280),
        ("perf_event_open", 298, 241),
        ("userfaultfd", 323, 282),
        ("open_by_handle_at", 304, 265),
        ("kexec_load", 246, 104),
        ("kexec_file_load", 320, 294),
        ("init_module", 175, 105),
        ("finit_module", 313, 273),
        ("delete_module", 176, 106),
        ("reboot", 169, 142),
        ("swapon", 167, 224),
        ("swapoff", 168, 225),
        ("acct", 163, 89),
        ("syslog", 103, 116),
        ("quotactl", 179, 60),
        ("sethostname", 170, 161),
        ("setdomainname", 171, 162),
        ("settimeofday", 164, 170),
        ("clock_settime", 227, 112),
        ("clock_adjtime", 305, 266),
        ("adjtimex", 159, 171),
        ("iopl", 172, None),
        ("ioperm", 173, None),
        ("modify_ldt", 154, None),
        ("vhangup", 153, 58),
    ),
    *_same_number_calls(quotactl_fd=443),
)

REFUSED: Final = (
    *ATTRIBUTES,
    *PROCESSES,
    *PROGRAMS,
    *SHARED_MEMORY,
    *NAMESPACES,
    *IO_URING,
    *KEYRINGS,
    *FILE_WATCHES,
    *KERNEL,
)

# Calls that depend on their arguments; `seccomp` has the rules.
CLONE: Final = Call("clone", 56, 220)
CLONE3: Final = Call("clone3", 435, 435)
FCNTL: Final = Call("fcntl", 72, 25)
IOCTL: Final = Call("ioctl", 16, 29)
IOPRIO_SET: Final = Call("ioprio_set", 251, 30)
PRCTL: Final = Call("prctl", 157, 167)
PRLIMIT: Final = Call("prlimit64", 302, 261)
SENDTO: Final = Call("sendto", 44, 206)
SETPRIORITY: Final = Call("setpriority", 141, 140)
SIGNALS: Final = _calls(
    ("kill", 62, 129),
    ("tkill", 200, 130),
    ("tgkill", 234, 131),
    ("rt_sigqueueinfo", 129, 138),
    ("rt_tgsigqueueinfo", 297, 240),
)
SCHEDULING: Final = _calls(
    ("sched_setparam", 142, 118),
    ("sched_setscheduler", 144, 119),
    ("sched_setaffinity", 203, 122),
    ("sched_setattr", 314, 274),
)
SOCKETPAIR: Final = Call("socketpair", 53, 199)

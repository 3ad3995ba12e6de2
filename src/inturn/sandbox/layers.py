"""Describe the layers of the sandbox, and what a hostile parser could do on a kernel that lacks one.

The worker, `inturn doctor` and docs/processing.md show this table. Tests disable each layer, let a hostile parser try
every probe, and compare those that pass with the probes listed here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Exposure:
    """Something a hostile parser could do, and the probes of the tests that then pass."""

    description: str
    probes: tuple[str, ...]


READ_FILES: Final = Exposure(
    "read the store, other customers' documents and whatever else the worker may read",
    (
        *("read_store", "read_wal", "read_gate", "read_blob", "read_secret", "read_scratch_file"),
        *("list_folder", "list_blobs", "list_scratch"),
    ),
)
CHANGE_FILES: Final = Exposure(
    "write, rename and remove the worker's files, the store among them",
    (
        *("write_file", "make_file", "make_folder", "make_fifo", "remove_file", "rename_file", "move_into_scratch"),
        *("link_file", "link_into_scratch", "truncate_readable_file"),
    ),
)
READ_ENVIRONMENT: Final = Exposure("read the environment of the worker", ("read_others_environment",))
SHARED_RESOURCES: Final = Exposure(
    "see which processes run, and write to world-writable places",
    ("list_processes", "write_shared_memory", "symlink_in_scratch"),
)
TRUNCATE_PACKAGES: Final = Exposure(
    "empty files of installed packages that the worker's user owns", ("truncate_readable_file",)
)
CHANGE_ATTRIBUTES: Final = Exposure(
    "change modes, owners, times and attributes of the worker's files",
    (
        *("chmod", "chmod_store", "chmod_again", "chmod_document", "chown", "chown_at", "chown_document"),
        *("utime", "utime_now", "utime_document", "set_attribute", "remove_attribute"),
        *("set_attribute_of_document", "set_flags_of_document", "shared_memory"),
    ),
)
CHANGE_WORKER_LIMITS: Final = Exposure(
    "slow the worker down or take its limits away", ("limit_worker", "slow_worker", "pin_worker")
)
WATCH_BLOBS: Final = Exposure("watch which blobs come and go", ("watch_blobs",))
NETWORK_AND_PROCESSES: Final = Exposure(
    "send UDP, talk to local services, start programs and outlive the worker",
    (
        *("udp", "udp6", "local_socket", "datagram_by_pair", "datagram_by_message", "netlink"),
        *("fork", "replace_program", "outlive_worker"),
        *("signal_own_group", "signal_all_processes", "signal_parent", "signal_by_pipe", "signal_by_descriptor"),
        *("open_process", "take_descriptor"),
    ),
)
KERNEL_INTERFACES: Final = Exposure(
    "try parts of the kernel that parsers never need: namespaces, io_uring, keyrings, BPF",
    (
        *("user_namespace", "enter_namespace", "clone_namespace", "mount", "io_uring", "keyring", "keyring_search"),
        *("bpf", "performance_events", "page_faults", "read_by_handle", "watch_all_files", "set_attribute_at"),
    ),
)
STAY_ROOT: Final = Exposure(
    "stay root, held by the other layers alone", ("be_root", "become_root", "write_where_root_may")
)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer, the Linux version that introduced it, and the exposures that only it prevents."""

    key: str
    name: str
    since: str
    user_exposures: tuple[Exposure, ...]
    """Without it, with a worker that runs as an ordinary user."""
    root_exposures: tuple[Exposure, ...]
    """Without it, with a worker that is root and whose children are users of their own."""

    def describe(self, *, is_root: bool, may_search: bool = False) -> str:
        """Describe what a parser could do without the layer; `may_search`: it keeps CAP_DAC_READ_SEARCH."""
        exposures = self.exposures(is_root=is_root, may_search=may_search)
        risks = "; ".join(item.description for item in exposures) or "nothing more: another layer prevents it as well"
        return f"{self.name} ({self.since}); without it a parser that was taken over could {risks}"

    def exposures(self, *, is_root: bool, may_search: bool = False) -> tuple[Exposure, ...]:
        """Return what a parser could do without the layer."""
        if not is_root:
            return self.user_exposures
        by_search = tuple(item for item in (READ_FILES, WATCH_BLOBS) if may_search and item in self.user_exposures)
        return (*by_search, *self.root_exposures)


LAYERS: Final = (
    Layer(
        "landlock",
        "Landlock",
        "Linux 5.13",
        (READ_FILES, READ_ENVIRONMENT, CHANGE_FILES, SHARED_RESOURCES),
        (SHARED_RESOURCES,),
    ),
    Layer("landlock-3", "Landlock 3", "Linux 6.2", (TRUNCATE_PACKAGES,), ()),
    Layer("landlock-4", "Landlock 4", "Linux 6.7", (), ()),
    Layer("landlock-6", "Landlock 6", "Linux 6.12", (), ()),
    Layer(
        "seccomp",
        "seccomp",
        "Linux 3.17",
        (CHANGE_ATTRIBUTES, CHANGE_WORKER_LIMITS, WATCH_BLOBS, NETWORK_AND_PROCESSES, KERNEL_INTERFACES),
        (NETWORK_AND_PROCESSES, KERNEL_INTERFACES),
    ),
    Layer("user", "a user of its own", "any, if the worker is root", (), (STAY_ROOT,)),
)
LAYERS_BY_KEY: Final = {layer.key: layer for layer in LAYERS}


def missing_layers(landlock: int, *, seccomp: bool, user: bool) -> Iterator[Layer]:
    """Yield the layers that are missing and whose absence exposes something."""
    if landlock == 0:
        yield LAYERS_BY_KEY["landlock"]
    elif landlock < 3:
        yield LAYERS_BY_KEY["landlock-3"]
    if not seccomp:
        yield LAYERS_BY_KEY["seccomp"]
    if not user:
        yield LAYERS_BY_KEY["user"]

"""A queue that a hostile parser is let loose on, as one of several users, by a real worker started from a shell's view.

Everything lies in a folder that any user may enter: pytest's own are closed to all but their owner.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import inturn
from demo import make_document
from inturn.blobs import FolderBlobs
from inturn.model import DocumentState, NewDocument
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores.sqlite import SqliteStore

HERE = Path(__file__).parent
SOURCE = Path(inturn.__file__).parent
PACKAGES = sysconfig.get_paths()["purelib"]
UNPRIVILEGED_UID = 12_345
TIMEOUT_SECONDS = 120

FAKE_PARSER = """
# kreuzberg itself, but for what reads documents: that tries whatever a hostile one would.
import json, os, sys
from pathlib import Path
WORKER, LOADED_BY, HERE = os.getppid(), os.getpid(), Path(__file__).parent
_here, sys.path[:] = str(HERE.parent), [entry for entry in sys.path if Path(entry) != HERE.parent]
_own = sys.modules.pop("kreuzberg")
import kreuzberg as _real
sys.modules["kreuzberg"], sys.path[:0] = _own, [_here]
globals().update({name: value for name, value in vars(_real).items() if not name.startswith("__")})
__path__.extend(_real.__path__)

class Parsed:
    def __init__(self, content):
        self.content, self.metadata, self.detected_languages = content, {"page_count": 1}, ["en"]
        self.tables = self.pages = self.chunks = self.images = []

def _hostile(*_, **__):
    if os.getpid() != LOADED_BY:  # a child, that is
        from kreuzberg import probes
        return Parsed(json.dumps(probes.run_all(probes.aim(json.loads((HERE / "targets.json").read_text()), WORKER))))
    return _real.extract_bytes_sync(*_, **__)

for _name in [name for name in dir(_real) if name.startswith(("extract_", "batch_extract_"))]:
    globals()[_name] = _hostile
"""
PROCESSOR = """
import json, os
from pathlib import Path
from . import probes
WORKER = os.getppid()

def act(document):
    targets = json.loads(Path(__file__).with_name("targets.json").read_text())
    return probes.run_all(probes.aim(targets, WORKER))
"""
CONTROL = """
import json, sys
from pathlib import Path
import probes
targets = json.loads(sys.argv[1])
with open(targets["blob"], "rb") as document:
    print(json.dumps(probes.run_all_forked({**targets, "document": document.fileno()})))
"""
VICTIMS = (
    *("write", "remove", "rename", "move", "link", "truncate", "chmod", "chmod2", "chown", "chown2"),
    *("utime", "utime2", "xattr", "xattr2", "has xattr"),
)


class WorkerUser(NamedTuple):
    """Who starts the worker, and by which interpreter."""

    name: str
    python: str
    uid: int

    @property
    def is_root(self) -> bool:
        return self.uid == 0

    def credentials(self) -> dict[str, Any]:
        """How to start a process as this one; root has groups, as in many containers."""
        if self.uid == os.getuid():
            return {"extra_groups": [0, 4]} if self.is_root else {}
        return {"user": self.uid, "group": self.uid, "extra_groups": []}


@cache
def public_python() -> str | None:
    """An interpreter of our version that any user may start; None if this machine has none."""
    if os.getuid() != 0:
        return sys.executable
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        program = "import apsw, kreuzberg, typer, sys; print('%d.%d' % sys.version_info[:2])"
        try:
            done = subprocess.run(  # noqa: S603 - an interpreter
                [python, "-c", program],
                env={"PYTHONPATH": PACKAGES},
                cwd="/",
                user=UNPRIVILEGED_UID,
                group=UNPRIVILEGED_UID,
                extra_groups=[],
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            continue
        if done.stdout.strip() == version:
            return python
    return None


def available_users() -> dict[str, WorkerUser | None]:
    """Those that this machine and user can play; None for the others."""
    public = public_python()
    if os.getuid() != 0:
        return {
            "a user": WorkerUser("a user", sys.executable, os.getuid()),
            "root": None,
            "root, closed interpreter": None,
        }
    closed = None if public == sys.executable else WorkerUser("root, closed interpreter", sys.executable, 0)
    return {
        "a user": None if public is None else WorkerUser("a user", public, UNPRIVILEGED_UID),
        "root": None if public is None else WorkerUser("root", public, 0),
        "root, closed interpreter": closed,
    }


class AttackScenario:
    """The queue, the other customer's secrets in it, and what a worker's parser made of them."""

    def __init__(self, base: Path, user: WorkerUser) -> None:
        self.base, self.user = base, user
        self.queue, self.victims = base / "queue", base / "queue" / "victims"
        self.fake_parser, self.package = base / "stand in" / "kreuzberg", base / "program" / "hostile"
        self.temporary = base / "tmp"
        self.other_scratch = self.temporary / "inturn-worker-other" / "scratch-1"
        self._make()

    def _make(self) -> None:
        shutil.copytree(SOURCE, self.base / "source" / "inturn", ignore=shutil.ignore_patterns("__pycache__"))
        for folder, program in ((self.fake_parser, FAKE_PARSER), (self.package, PROCESSOR)):
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text(program, encoding="utf-8")
            (folder / "readable").write_text("a part of the program", encoding="utf-8")
            shutil.copytree(HERE / "probes", folder / "probes", ignore=shutil.ignore_patterns("__pycache__"))
        self.victims.mkdir(parents=True)
        self.renew_victims()
        (self.queue / "secret.txt").write_text("another customer's secret", encoding="utf-8")
        (self.queue / "document.pdf").write_bytes(make_document("pdf", 7).data)
        self.other_scratch.mkdir(parents=True)
        (self.other_scratch / "document-1").write_text("another document", encoding="utf-8")
        with self.open_queue() as (queue, blobs):
            other = self._submit_file(queue, blobs, "other", "secret.txt")
            queue.cancel(other, Operator("a test", "it is only there to be stolen"))
        self._chown(self.base)
        self.queue.chmod(0o700)
        self.other_scratch.chmod(0o700)
        self.other_scratch.parent.chmod(0o711)

    def renew_victims(self) -> None:
        for name in VICTIMS:
            path = self.victims / name
            path.write_text(name, encoding="utf-8")
            path.chmod(0o600)
            os.chown(path, self.user.uid, self.user.uid)
        os.setxattr(self.victims / "has xattr", "user.inturn", b"x")

    def run(self, *arguments: str, in_queue_folder: bool = True) -> subprocess.CompletedProcess[str]:
        """`inturn` with these arguments, started in the queue's folder or outside of it."""
        paths = [self.base / "stand in", self.base / "source", self.base / "program"]
        paths += [] if self.user.python == sys.executable else [Path(PACKAGES)]
        return subprocess.run(  # noqa: S603 - ours
            [self.user.python, "-m", "inturn.cli", *arguments],
            cwd=self.queue if in_queue_folder else "/",
            env={
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "TMPDIR": str(self.temporary),
                "INTURN_STORE": str(self.queue / "inturn.db"),
                "INTURN_BLOBS": str(self.queue / "inturn.db.blobs"),
                "A_SECRET": "of the worker's",
                "LANG": "C.UTF-8",
                "PATH": os.environ["PATH"],
            },
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            **self.user.credentials(),
        )

    def submit(self) -> str:
        """A document for the hostile parser; its id."""
        with self.open_queue() as (queue, blobs):
            return self._submit_file(queue, blobs, "acme", "document.pdf")

    def result(self, id_: str) -> Any:
        """What came of it."""
        with self.open_queue() as (queue, _):
            document = queue.document(id_)
            assert document.state is DocumentState.DONE, document.error
            return queue.result(id_)

    def _submit_file(self, queue: Queue, blobs: FolderBlobs, customer: str, name: str) -> str:
        with (self.queue / name).open("rb") as source:
            blob = blobs.put(source)
        given = NewDocument(name, blob=blob.key, sha256=blob.sha256, size=blob.size)
        return queue.submit(customer, [given])[0].id

    @contextmanager
    def open_queue(self) -> Iterator[tuple[Queue, FolderBlobs]]:
        """The queue, as its own user would have opened it."""
        with closing(Queue(SqliteStore(self.queue / "inturn.db"))) as queue:
            yield queue, FolderBlobs(self.queue / "inturn.db.blobs")
            self._chown(self.queue)
        self._chown(self.queue)

    def _chown(self, folder: Path) -> None:
        if self.user.uid != os.getuid():
            for place, folders, files in os.walk(folder):
                for name in (".", *folders, *files):
                    os.chown(Path(place, name), self.user.uid, self.user.uid)

    @contextmanager
    def neighbour(self) -> Iterator[int]:
        """A process of the same user, in place of the worker."""
        program = [self.user.python, "-c", "print(flush=True); input()"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(program, cwd="/", **pipes, **self.user.credentials()) as process:  # noqa: S603
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
            process.kill()

    def write_targets(self, sockets: dict[str, Any]) -> dict[str, Any]:
        """Tell the probes where everything lies."""
        store = self.queue / "inturn.db"
        targets = {
            "store": str(store),
            "wal": f"{store}-wal",
            "gate": f"{store}-gate",
            "blobs": f"{store}.blobs",
            "blob": str(self.blob()),
            "secret": str(self.queue / "secret.txt"),
            "folder": str(self.queue),
            "scratch": str(self.other_scratch),
            "scratch_file": str(self.other_scratch / "document-1"),
            "victims": str(self.victims),
            **sockets,
        }
        for folder in (self.fake_parser, self.package):
            own = {**targets, "readable": str(folder / "readable")}
            (folder / "targets.json").write_text(json.dumps(own), encoding="utf-8")
        return {**targets, "readable": str(self.fake_parser / "readable"), "own": str(self.temporary)}

    def blob(self) -> Path:
        stored = [path for path in (self.queue / "inturn.db.blobs").rglob("*") if path.is_file()]
        return next(path for path in stored if path.read_text(errors="replace").startswith("another"))

    def run_unsandboxed(self, targets: dict[str, Any]) -> dict[str, str]:
        """What the same probes come to outside the box."""
        paths = [str(self.fake_parser)]
        done = subprocess.run(  # noqa: S603 - ours
            [self.user.python, "-c", CONTROL, json.dumps(targets)],
            cwd=self.base,
            env={"PYTHONPATH": os.pathsep.join(paths), "A_SECRET": "of the worker's"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            **self.user.credentials(),
        )
        assert done.returncode == 0, done.stderr
        outcomes: dict[str, str] = json.loads(done.stdout)
        return outcomes

    def run_sandboxed(self, missing_layer: str, targets: dict[str, Any]) -> dict[str, str]:
        """What they come to in the box of a kernel that lacks a layer."""
        scratch = self.temporary / "own"
        scratch.mkdir(mode=0o700, exist_ok=True)
        os.chown(scratch, self.user.uid, self.user.uid)
        shutil.copy(HERE / "sandbox_child_probes.py", self.fake_parser)
        done = subprocess.run(  # noqa: S603 - ours
            [
                self.user.python,
                str(self.fake_parser / "sandbox_child_probes.py"),
                missing_layer,
                str(scratch),
                json.dumps(targets),
            ],
            cwd=self.queue,
            env={"PYTHONPATH": os.pathsep.join([str(self.base / "source"), PACKAGES]), "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            **self.user.credentials(),
        )
        assert done.returncode == 0, done.stderr
        outcomes: dict[str, str] = json.loads(done.stdout)
        return outcomes

    def snapshot(self) -> dict[str, tuple[Any, ...]]:
        """What can be seen of all files that nobody but the worker should change."""
        watched = [
            self.queue,
            self.victims,
            self.other_scratch,
            *self.victims.iterdir(),
            self.blob(),
            *self.other_scratch.iterdir(),
        ]
        watched += [self.queue / "secret.txt", self.fake_parser / "readable", self.package / "readable"]
        seen = {}
        for path in watched:
            facts = path.stat()
            content = path.read_bytes() if path.is_file() else b""
            times = 0 if path == self.queue else facts.st_mtime_ns  # SQLite makes and removes its files there
            attributes = tuple(os.listxattr(path))
            seen[str(path)] = (facts.st_mode, facts.st_uid, facts.st_gid, times, facts.st_nlink, attributes, content)
        return seen


@contextmanager
def scenario_for(user: WorkerUser) -> Iterator[AttackScenario]:
    """A scene, and nothing left of it afterwards."""
    base = Path(tempfile.mkdtemp(prefix="inturn-probes-"))
    base.chmod(0o755)
    try:
        yield AttackScenario(base, user)
    finally:
        shutil.rmtree(base)


@contextmanager
def listening_servers(base: Path) -> Iterator[dict[str, Any]]:
    """Servers of every kind that could be reached."""
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        local, abstract, datagrams = (
            stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            for kind in (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM)
        )
        for name in ("stream", "datagrams"):
            (base / name).unlink(missing_ok=True)
        local.bind(str(base / "stream"))
        abstract.bind(f"\0{base.name}")
        datagrams.bind(str(base / "datagrams"))
        for name in ("stream", "datagrams"):
            (base / name).chmod(0o777)
        local.listen()
        abstract.listen()
        yield {
            "port": tcp.getsockname()[1],
            "socket": str(base / "stream"),
            "abstract": base.name,
            "datagrams": str(base / "datagrams"),
        }

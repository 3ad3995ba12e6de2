"""Blobs in a folder: layout, permissions, killed writers, full and failing disks."""

import errno
import hashlib
import io
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inturn.blobs import FolderBlobs, open_blobs
from inturn.errors import BlobError, BlobFullError, InvalidInputError

FAR = 2**62
SOURCES = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tmp_path / "some" / "blobs"


@pytest.fixture
def blobs(top: Path) -> FolderBlobs:
    return FolderBlobs(top)


def files(top: Path) -> list[Path]:
    return [path for path in top.rglob("*") if not path.is_dir()]


def run(program: str, top: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", program, top], env={"PYTHONPATH": SOURCES}, check=False)  # noqa: S603 - ours


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_a_folder_is_opened_by_path_or_address(top: Path, form: str) -> None:
    opened = open_blobs(form.format(top))
    assert isinstance(opened, FolderBlobs)
    assert opened.folder == top


def test_an_address_may_be_percent_encoded(tmp_path: Path) -> None:
    opened = open_blobs(f"file://{tmp_path}/with%20space")
    assert isinstance(opened, FolderBlobs)
    assert opened.folder == tmp_path / "with space"


@pytest.mark.parametrize(
    "address", ["", "a\0b", "file://host/path", "file://", "file:///x?y=1", "ftp://x/y", "s3:///", "x://["]
)
def test_other_addresses_are_refused(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError):
        open_blobs(address)
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened = open_blobs("blobs")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    blob = opened.put(io.BytesIO(b"x"))
    assert (tmp_path / "blobs" / blob.key[-2:] / blob.key).read_bytes() == b"x"


def test_only_the_owner_can_read(blobs: FolderBlobs, top: Path) -> None:
    blob = blobs.put(io.BytesIO(b"x"))
    path = top / blob.key[-2:] / blob.key
    with blobs.local(blob.key) as real:
        assert real == path
    assert mode(path) == 0o600
    assert {mode(folder) for folder in (top, top / "tmp", path.parent)} == {0o700}
    with blobs.begin() as writer:
        assert mode(top / "tmp" / writer.key) == 0o600


def test_keys_spread_over_the_shards(blobs: FolderBlobs, top: Path) -> None:
    for _ in range(100):
        blobs.put(io.BytesIO(b"x"))
    assert len({path.parent for path in files(top)}) > 50


def test_bytes_are_synced_before_the_rename_and_the_name_after_it(
    blobs: FolderBlobs, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def synced(file: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{file}').readlink().relative_to(top)}")
        fsync(file)

    def renamed(path: Path, target: Path) -> Path:
        steps.append(f"rename {path.relative_to(top)} {target.relative_to(top)}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    key = blobs.put(io.BytesIO(b"x")).key
    assert steps == [f"sync tmp/{key}", f"rename tmp/{key} {key[-2:]}/{key}", f"sync {key[-2:]}"]


def test_new_folders_are_synced_into_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink()))
    FolderBlobs(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]


def test_short_writes_are_completed(blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]))
    blob = blobs.put(io.BytesIO(b"0123456789"))
    blobs.check(blob.key, hashlib.sha256(b"0123456789").hexdigest())


CASES = [
    (errno.ENOSPC, BlobFullError, "make room"),
    (errno.EDQUOT, BlobFullError, "make room"),
    (errno.EACCES, BlobError, "right to read and write"),
    (errno.EROFS, BlobError, "read-only"),
    (errno.EIO, BlobError, "system's log"),
    (errno.EBADMSG, BlobError, "check the folder"),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("call", ["write", "fsync", "open"])
def test_disk_error_is_reported_and_leaves_nothing(
    blobs: FolderBlobs, top: Path, monkeypatch: pytest.MonkeyPatch, call: str, case: tuple[int, type[BlobError], str]
) -> None:
    number, kind, advice = case

    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(kind, match=advice) as exception_info:
            blobs.put(io.BytesIO(b"x"))
    assert str(top) in str(exception_info.value)
    assert files(top) == []
    blobs.put(io.BytesIO(b"works again"))


def test_blob_is_removed_if_its_name_cannot_be_synced(
    blobs: FolderBlobs, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def refuse_folders(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(file)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    with pytest.raises(BlobError):
        blobs.put(io.BytesIO(b"x"))
    assert files(top) == []


FULL = """
import io, resource, signal, sys
from inturn.blobs import open_blobs
from inturn.errors import BlobFullError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
blobs = open_blobs(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
blobs.put(io.BytesIO(bytes(100_000)))
try:
    blobs.put(io.BytesIO(bytes(100_001)))
except BlobFullError:
    sys.exit(7)
"""


def test_file_size_limit_is_reported_and_leaves_nothing(top: Path) -> None:
    ended = run(FULL, top)
    assert ended.returncode == 7
    assert [path.stat().st_size for path in files(top)] == [100_000]


KILLED = """
import hashlib, os, sys
from inturn.blobs import open_blobs
blobs = open_blobs(sys.argv[1])
while True:
    body = os.urandom(int.from_bytes(os.urandom(2), "big"))
    data = hashlib.sha256(body).digest() + body
    with blobs.begin() as writer:
        for start in range(0, len(data), 500):
            writer.write(data[start : start + 500])
        blob = writer.commit()
    sys.stdout.write(f"{blob.key} {blob.sha256}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("seed", range(10))
def test_killed_writer_leaves_all_committed_blobs_complete(top: Path, seed: int) -> None:
    lines = random.Random(seed).randrange(1, 50)
    command = [sys.executable, "-c", KILLED, str(top)]
    with subprocess.Popen(command, env={"PYTHONPATH": SOURCES}, stdout=subprocess.PIPE, text=True) as child:  # noqa: S603 - ours
        assert child.stdout is not None
        reported = [child.stdout.readline().split() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        reported += [line.split() for line in child.stdout if line.endswith("\n")]
    blobs = open_blobs(str(top))
    seen = list(blobs.keys(FAR))
    assert {key for key, _ in reported} <= set(seen)
    assert len(seen) <= len(reported) + 1
    for key, sha256 in reported:
        blobs.check(key, sha256)
    for key in seen:
        with blobs.open(key) as source:
            assert source.read(32) == hashlib.sha256(source.read()).digest()
    assert blobs.remove_unfinished(FAR) <= 1
    assert len(files(top)) == len(seen)


EVERYWHERE = """
import io, itertools, os, signal, sys
from inturn.blobs import open_blobs
blobs = open_blobs(sys.argv[1])

def put_and_die(at):
    steps = itertools.count(1)
    def step(frame, event, _):
        if "blobs" in frame.f_code.co_filename and event == "line" and next(steps) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return step
    sys.settrace(step)
    blobs.put(io.BytesIO(b"content"))
    os._exit(0)

for at in itertools.count(1):
    child = os.fork()
    if not child:
        put_and_die(at)
    _, status = os.waitpid(child, 0)
    if status == 0:
        sys.exit(0 if at > 20 else 1)
"""


def test_writer_killed_at_any_line_leaves_a_complete_blob_or_none(top: Path) -> None:
    assert run(EVERYWHERE, top).returncode == 0
    blobs = open_blobs(str(top))
    seen = list(blobs.keys(FAR))
    assert seen
    for key in seen:
        blobs.check(key, hashlib.sha256(b"content").hexdigest())
    assert blobs.remove_unfinished(FAR) > 0
    assert len(files(top)) == len(seen)


def test_stale_temporary_files_go_and_others_stay(blobs: FolderBlobs, top: Path) -> None:
    blob = blobs.put(io.BytesIO(b"x"))
    stale, fresh = blobs.begin(), blobs.begin()
    os.utime(top / "tmp" / stale.key, ns=(0, 5_000))
    assert blobs.remove_unfinished(5) == 0
    assert blobs.remove_unfinished(6) == 1
    assert files(top / "tmp") == [top / "tmp" / fresh.key]
    with pytest.raises(BlobError, match="gone"):
        stale.commit()
    fresh.commit()
    assert set(blobs.keys(FAR)) == {blob.key, fresh.key}


def test_age_is_counted_to_the_microsecond(blobs: FolderBlobs, top: Path) -> None:
    blob = blobs.put(io.BytesIO(b"x"))
    os.utime(top / blob.key[-2:] / blob.key, ns=(0, 5_000))
    assert list(blobs.keys(5)) == []
    assert list(blobs.keys(6)) == [blob.key]


def test_files_that_are_not_ours_are_neither_listed_nor_removed(blobs: FolderBlobs, top: Path) -> None:
    strange = [
        top / "tmp" / "notes",
        top / "ab" / "README",
        top / "00" / "018f3c5e-0000-7000-8000-0000000000ff",
        top / "x",
    ]
    for path in strange:
        path.write_text("mine")
    assert list(blobs.keys(FAR)) == []
    assert blobs.remove_unfinished(FAR) == 0
    assert sorted(files(top)) == sorted(strange)


def test_missing_folder_is_reported(blobs: FolderBlobs, top: Path) -> None:
    shutil.rmtree(top)
    with pytest.raises(BlobError, match="mount or restore it"):
        blobs.put(io.BytesIO(b"x"))
    with pytest.raises(BlobError, match="mount or restore it"):
        list(blobs.keys(FAR))
    assert not top.exists()


def test_file_in_the_path_is_reported(top: Path) -> None:
    top.parent.mkdir()
    top.write_text("a file")
    with pytest.raises(BlobError, match="is a file"):
        FolderBlobs(top)


def test_existing_folder_keeps_its_mode(top: Path) -> None:
    top.mkdir(parents=True)
    top.chmod(0o750)
    FolderBlobs(top)
    assert mode(top) == 0o750
    assert mode(top / "tmp") == 0o700

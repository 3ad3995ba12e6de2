"""Which files boxed children may read: programs, never the folder that a store or blobs lie in."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from inturn.model import DocumentState
from inturn.sandbox import allowed_paths
from inturn.sandbox.confinement import SandboxLimits
from inturn.worker.pool import ProcessorError
from inturn.worker.worker import OutcomeCounts
from worker_harness import SOURCE, WorkerHarness

BOX = SandboxLimits()
READER = """
from pathlib import Path

def act(document):
    outcomes = {}
    for name, path in document.metadata["paths"].items():
        try:
            outcomes[name] = Path(path).read_text(errors="replace")[:10]
        except PermissionError:
            outcomes[name] = None
    from . import later
    return {**outcomes, "later": later.HERE}
"""


@pytest.fixture
def importing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Put a folder on the import path, and forget what was loaded from it at the end."""
    before = set(sys.modules)

    def put(folder: Path) -> None:
        monkeypatch.syspath_prepend(str(folder))

    yield put  # type: ignore[misc]
    for name in set(sys.modules) - before:
        del sys.modules[name]


def make_package(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(READER, encoding="utf-8")
    (folder / "later.py").write_text("HERE = 'loaded later'", encoding="utf-8")
    (folder / "data.txt").write_text("its own data", encoding="utf-8")
    return folder


def read(harness: WorkerHarness, processor: str, **paths: Path) -> dict[str, str | None]:
    id_ = harness.submit("", paths={name: str(path) for name, path in paths.items()}, max_attempts=1)
    harness.run_until_empty(processor, box=BOX)
    assert harness.state(id_) is DocumentState.DONE, harness.queue.document(id_).error
    result: dict[str, str | None] = harness.queue.result(id_)
    return result


def test_a_package_beside_the_store_is_readable_and_the_store_is_not(
    harness: WorkerHarness, importing: Callable[[Path], None]
) -> None:
    package = make_package(harness.folder / "beside_the_store")
    (harness.folder / "notes.txt").write_text("a secret", encoding="utf-8")
    importing(harness.folder)
    outcomes = read(
        harness,
        "beside_the_store:act",
        own=package / "data.txt",
        store=harness.path,
        notes=harness.folder / "notes.txt",
    )
    assert outcomes == {"own": "its own da", "store": None, "notes": None, "later": "loaded later"}


@pytest.mark.parametrize("place", ["store", "blobs"])
def test_a_module_beside_the_store_or_the_blobs_is_refused_before_anything_is_claimed(
    tmp_path: Path, importing: Callable[[Path], None], place: str
) -> None:
    folders = {"store": tmp_path / "one", "blobs": tmp_path / "two"}
    for folder in folders.values():
        folder.mkdir()
    harness = WorkerHarness(folders["store"])
    harness.blobs = type(harness.blobs)(folders["blobs"] / "blobs")
    (folders[place] / f"beside_the_{place}_alone.py").write_text("def act(document): ...", encoding="utf-8")
    importing(folders[place])
    try:
        id_ = harness.submit("")
        with pytest.raises(ProcessorError, match=r"in the same folder as .* to a folder of their own"):
            harness.run_until_empty(f"beside_the_{place}_alone:act", box=BOX)
        assert (harness.state(id_), harness.queue.document(id_).attempt) == (DocumentState.WAITING, 0)
        harness.run_until_empty(f"beside_the_{place}_alone:act")  # outside the sandbox it may lie where it wants
        assert harness.state(id_) is DocumentState.DONE
    finally:
        harness.close()


def test_a_package_that_holds_the_store_is_refused(tmp_path: Path, importing: Callable[[Path], None]) -> None:
    harness = WorkerHarness(make_package(tmp_path / "around_the_store"))
    importing(tmp_path)
    try:
        harness.submit("")
        with pytest.raises(ProcessorError, match=r"cannot protect .* have to read .*around_the_store"):
            harness.run_until_empty("around_the_store:act", box=BOX)
    finally:
        harness.close()


def test_the_default_processor_is_refused_where_its_own_files_lie_with_the_store(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = harness.submit("", content=b"words", name="a.txt")
    (harness.folder / "eng.traineddata").touch()
    monkeypatch.setenv("TESSDATA_PREFIX", str(harness.folder))
    with pytest.raises(ProcessorError, match="cannot protect"):
        harness.run_default_processor()
    assert harness.queue.document(id_).attempt == 0


def test_links_do_not_hide_the_store(harness: WorkerHarness, importing: Callable[[Path], None]) -> None:
    real = make_package(harness.folder / "real" / "linked_package")
    importing(harness.folder / "links")
    (harness.folder / "links").mkdir()
    (harness.folder / "links" / "linked_package").symlink_to(real)
    (real / "link to the store").symlink_to(harness.path)
    outcomes = read(harness, "linked_package:act", own=real / "data.txt", store=real / "link to the store")
    assert outcomes == {"own": "its own da", "store": None, "later": "loaded later"}
    link = harness.folder / "link.db"
    link.symlink_to(harness.path)
    with pytest.raises(allowed_paths.SandboxError):
        allowed_paths.refuse_protected([harness.folder], [Path("/nonexistent"), link])


@pytest.mark.parametrize(
    ("readable", "is_refused"),
    [
        ("queue", True),
        ("queue/blobs", True),
        ("queue/blobs/ab", True),
        (".", True),
        ("queue/.venv/lib/site-packages", False),
        ("queue/blobs-of-another", False),
        ("other", False),
    ],
)
def test_no_folder_around_the_store_or_inside_the_blobs_is_allowed(
    tmp_path: Path, readable: str, *, is_refused: bool
) -> None:
    for folder in ("queue/blobs/ab", "queue/.venv/lib/site-packages", "queue/blobs-of-another", "other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "queue/inturn.db").touch()
    protected = [tmp_path / "queue/inturn.db", tmp_path / "queue/blobs"]
    try:
        allowed_paths.refuse_protected([(tmp_path / readable).resolve()], protected)
    except allowed_paths.SandboxError:
        assert is_refused
    else:
        assert not is_refused


def test_only_own_folders_and_files_of_loaded_modules_are_readable(
    tmp_path: Path, importing: Callable[[Path], None]
) -> None:
    make_package(tmp_path / "a_loaded_package")
    (tmp_path / "a_loaded_module.py").touch()
    (tmp_path / "a_namespace").mkdir()
    importing(tmp_path)
    for name in ("a_loaded_package", "a_loaded_module", "a_namespace"):
        __import__(name)
    paths = allowed_paths.loaded_paths({name: sys.modules[name] for name in list(sys.modules)})
    below = {path.relative_to(tmp_path.resolve()) for path in paths if path.is_relative_to(tmp_path.resolve())}
    assert below == {Path("a_loaded_package"), Path("a_loaded_module.py"), Path("a_namespace")}


def test_the_import_path_of_the_default_processor_has_no_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", ".", "relative", str(tmp_path), str(SOURCE)])
    assert allowed_paths.import_path() == [str(SOURCE)]
    monkeypatch.chdir(SOURCE)
    assert allowed_paths.import_path() == [str(tmp_path), str(SOURCE)]


def test_modules_in_the_working_directory_are_not_loaded_by_the_default_processor(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would run outside the box: the nursery loads everything before it forks."""
    pytest.importorskip("kreuzberg")  # into this process, from where it belongs
    for name in ("kreuzberg", "json"):
        (harness.folder / f"{name}.py").write_text("import os; os._exit(9)", encoding="utf-8")
    monkeypatch.chdir(harness.folder)
    monkeypatch.syspath_prepend(str(harness.folder))
    harness.submit("anything", content=b"a text", name="a.txt")
    assert harness.run_default_processor() == OutcomeCounts(done=1)


def test_a_virtual_environment_may_lie_in_the_queues_folder(tmp_path: Path) -> None:
    """The usual layout of a project: .venv beside inturn.db, and the program installed in place."""
    python = tmp_path / ".venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)  # noqa: S603
    (packages,) = (tmp_path / ".venv" / "lib").glob("python*/site-packages")
    make_package(packages / "installed")
    edited = make_package(tmp_path / "src" / "edited")
    (packages / "in_place.pth").write_text(
        f"{tmp_path / 'src'}\n{sysconfig.get_paths()['purelib']}\n{SOURCE}\n", encoding="utf-8"
    )
    harness = WorkerHarness(tmp_path)
    try:
        for processor, own in (("installed", packages / "installed"), ("edited", edited)):
            paths = {"own": str(own / "data.txt"), "store": str(harness.path), "venv": str(python.parent / "activate")}
            id_ = harness.submit("", paths=paths, max_attempts=1)
            done = subprocess.run(  # noqa: S603 - ours
                [python, "-m", "inturn.cli", "worker", "--until-empty", "--processor", f"{processor}:act", "--sandbox"],
                cwd=tmp_path,
                env={
                    **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                    "INTURN_STORE": str(harness.path),
                },
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert harness.queue.result(id_) == {
                "own": "its own da",
                "store": None,
                "venv": None,
                "later": "loaded later",
            }
    finally:
        harness.close()

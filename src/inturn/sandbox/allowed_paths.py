"""List the files that a sandboxed child may read: interpreter, installed packages, system libraries, loaded modules.

No folder of the import path is readable as a whole: the working directory is one of them and may hold anything. Of a
module outside the installed packages only its package folder is readable, or its single file.
"""

import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from inturn.errors import InturnError

PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
"""The package itself, not its parent folder, which in a source tree may hold anything."""


class SandboxError(InturnError):
    """The sandbox cannot be entered, or lacks a layer that is required."""

    code = "sandbox"


def needed_paths() -> tuple[Path, ...]:
    """Return the paths that the interpreter, Inturn and kreuzberg read at run time and that exist here."""
    paths: list[Path] = [*installed_paths(), Path(sys.base_prefix, "lib"), PACKAGE_FOLDER]
    paths += [Path("/lib"), Path("/lib64"), Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/local/lib")]
    paths += [Path("/etc/ld.so.cache"), Path("/etc/localtime"), Path("/usr/share/zoneinfo")]
    paths += [Path("/dev/null"), Path("/dev/urandom"), Path("/dev/zero")]
    # Rust and glibc read the number of CPUs and the size of the memory.
    paths += [Path("/proc/cpuinfo"), Path("/proc/meminfo"), Path("/sys/devices/system/cpu")]
    # The PDF library that `parser.prepare` has unpacked, and nothing else below TMPDIR.
    paths += [Path(os.environ.get("TMPDIR", "/nonexistent"), "kreuzberg-pdfium"), *ocr_folders()]
    return without_nested(path.resolve() for path in paths if path.exists())


def installed_paths() -> list[Path]:
    """Return the folders of the standard library and of installed packages."""
    schemes = sysconfig.get_paths()
    paths = [schemes[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += site.getsitepackages()
    if site.ENABLE_USER_SITE:
        paths.append(site.getusersitepackages())
    return [Path(path) for path in paths]


def import_path() -> list[str]:
    """Return this process's import path without the working directory, unless Inturn itself is there."""
    here = Path.cwd()
    return [
        entry
        for entry in sys.path
        if Path(entry).is_absolute() and (Path(entry) != here or here == PACKAGE_FOLDER.parent)
    ]


def loaded_paths(modules: Mapping[str, ModuleType | None]) -> list[Path]:
    """Return the package folder, or the single file, of each loaded top-level module."""
    return [
        Path(path).resolve()
        for name, module in list(modules.items())
        if "." not in name and module is not None
        for path in module_paths(module)
        if Path(path).is_absolute() and Path(path).exists()
    ]


def module_paths(module: ModuleType) -> Sequence[str]:
    """Return a package's folders, or a module's file."""
    folders = getattr(module, "__path__", None)
    if folders is not None:
        return [folder for folder in folders if isinstance(folder, str)]
    file = getattr(module, "__file__", None)
    return [file] if isinstance(file, str) else []


def readable_paths(processor: str, extra: Iterable[Path], protected: Sequence[Path]) -> tuple[Path, ...]:
    """Return all paths that a child may read, once its processor is loaded.

    Raise SandboxError if they include the store or the blobs, or if the processor is a single file beside them: its own
    data would be in the same folder.
    """
    _refuse_adjacent_module(processor, protected)
    paths = without_nested([*needed_paths(), *extra, *loaded_paths(sys.modules)])
    refuse_protected(paths, protected)
    return paths


def refuse_protected(paths: Iterable[Path], protected: Sequence[Path]) -> None:
    """Raise SandboxError if a readable path contains the store or the blobs, or is inside the blobs."""
    for path in paths:
        for secret in resolved_paths(protected):
            if secret.is_relative_to(path) or (secret.is_dir() and path.is_relative_to(secret)):
                raise SandboxError(
                    f"the sandbox cannot protect {secret}: its children have to read {path}."
                    f" Move the store and the blobs to a folder of their own"
                )


def resolved_paths(protected: Iterable[Path]) -> Iterator[Path]:
    """Yield the path of each, and the target if it is a link."""
    for secret in protected:
        yield secret.parent.resolve() / secret.name
        yield secret.resolve()


def _refuse_adjacent_module(processor: str, protected: Sequence[Path]) -> None:
    module = sys.modules.get(processor.partition(":")[0].partition(".")[0])
    if module is None or hasattr(module, "__path__"):
        return
    for path in module_paths(module):
        folder = Path(path).resolve().parent
        beside = next((secret for secret in resolved_paths(protected) if secret.parent == folder), None)
        if beside is not None:
            raise SandboxError(
                f"the processor's module {path} is in the same folder as {beside}, which the sandbox must protect."
                f" Move the store and the blobs to a folder of their own, or the module into a package"
            )


def without_nested(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Leave out paths that are below another of them."""
    outermost: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in outermost):
            outermost.append(path)
    return tuple(outermost)


def ocr_folders() -> list[Path]:
    """Return the folders of Tesseract's language data, if it is installed."""
    paths = [Path("/usr/share/tessdata"), Path("/usr/local/share/tessdata")]
    paths += Path("/usr/share/tesseract-ocr").glob("*/tessdata")
    prefix = os.environ.get("TESSDATA_PREFIX")
    if prefix:
        paths = [Path(prefix), Path(prefix, "tessdata"), *paths]
    return [folder for folder in paths if any(folder.glob("*.traineddata"))]

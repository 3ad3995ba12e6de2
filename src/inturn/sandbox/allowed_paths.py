"""Which files a boxed child may read: the interpreter, installed packages, system libraries, and what it has loaded.

Never a folder of the import path as such: the working directory is one, and holds what its owner put there. Of each
module that lies outside the installed packages its own package folder is readable, or its one file.
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
"""The package itself, not the folder it lies in: in a source tree that may hold anything."""


class SandboxError(InturnError):
    """The sandbox cannot be entered, or does not hold what was insisted on."""

    code = "sandbox"


def needed_paths() -> tuple[Path, ...]:
    """What the interpreter, Inturn and kreuzberg read once they run, as far as it is there on this machine."""
    wanted: list[Path] = [*installed_paths(), Path(sys.base_prefix, "lib"), PACKAGE_FOLDER]
    wanted += [Path("/lib"), Path("/lib64"), Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/local/lib")]
    wanted += [Path("/etc/ld.so.cache"), Path("/etc/localtime"), Path("/usr/share/zoneinfo")]
    wanted += [Path("/dev/null"), Path("/dev/urandom"), Path("/dev/zero")]
    # Rust and glibc ask how many processors and how much memory there are.
    wanted += [Path("/proc/cpuinfo"), Path("/proc/meminfo"), Path("/sys/devices/system/cpu")]
    # The PDF library that `parser.prepare` unpacked, and nothing else below TMPDIR.
    wanted += [Path(os.environ.get("TMPDIR", "/nonexistent"), "kreuzberg-pdfium"), *ocr_folders()]
    return without_nested(path.resolve() for path in wanted if path.exists())


def installed_paths() -> list[Path]:
    """Where the standard library and installed packages lie."""
    schemes = sysconfig.get_paths()
    paths = [schemes[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += site.getsitepackages()
    if site.ENABLE_USER_SITE:
        paths.append(site.getusersitepackages())
    return [Path(path) for path in paths]


def import_path() -> list[str]:
    """This process's import path, without the working directory unless Inturn itself lies there."""
    here = Path.cwd()
    return [
        entry
        for entry in sys.path
        if Path(entry).is_absolute() and (Path(entry) != here or here == PACKAGE_FOLDER.parent)
    ]


def loaded_paths(modules: Mapping[str, ModuleType | None]) -> list[Path]:
    """The package folder, or the one file, of each top-level module that was loaded."""
    return [
        Path(path).resolve()
        for name, module in list(modules.items())
        if "." not in name and module is not None
        for path in module_paths(module)
        if Path(path).is_absolute() and Path(path).exists()
    ]


def module_paths(module: ModuleType) -> Sequence[str]:
    """Where a module lies: a package's folders, or a file."""
    folders = getattr(module, "__path__", None)
    if folders is not None:
        return [folder for folder in folders if isinstance(folder, str)]
    file = getattr(module, "__file__", None)
    return [file] if isinstance(file, str) else []


def readable_paths(processor: str, extra: Iterable[Path], protected: Sequence[Path]) -> tuple[Path, ...]:
    """All that a child may read, after its processor was loaded; refuses what would open a store or blobs.

    A processor's plain module that lies beside them is refused, too: what it may want to read lies there as well.
    """
    _refuse_adjacent_module(processor, protected)
    paths = without_nested([*needed_paths(), *extra, *loaded_paths(sys.modules)])
    refuse_protected(paths, protected)
    return paths


def refuse_protected(paths: Iterable[Path], protected: Sequence[Path]) -> None:
    """Raise if a path that children may read holds the store or blobs, or lies inside the blobs."""
    for path in paths:
        for secret in resolved_paths(protected):
            if secret.is_relative_to(path) or (secret.is_dir() and path.is_relative_to(secret)):
                raise SandboxError(
                    f"the sandbox cannot protect {secret}: its children have to read {path}."
                    f" Move the store and the blobs to a folder of their own"
                )


def resolved_paths(protected: Iterable[Path]) -> Iterator[Path]:
    """Where they lie: by their own name, and where a link leads."""
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
                f"the processor's module {path} lies beside {beside}, which the sandbox must keep from it."
                f" Move the store and the blobs, or the module, to a folder of their own; a package's folder is one"
            )


def without_nested(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Leave out what lies below another of them."""
    stored: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in stored):
            stored.append(path)
    return tuple(stored)


def ocr_folders() -> list[Path]:
    """Where Tesseract's language data lies, if it is installed."""
    wanted = [Path("/usr/share/tessdata"), Path("/usr/local/share/tessdata")]
    wanted += Path("/usr/share/tesseract-ocr").glob("*/tessdata")
    named = os.environ.get("TESSDATA_PREFIX")
    if named:
        wanted = [Path(named), Path(named, "tessdata"), *wanted]
    return [folder for folder in wanted if any(folder.glob("*.traineddata"))]

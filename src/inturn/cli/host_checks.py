"""What this machine has for workers: the layers of the sandbox, the built-in processor's packages, its OCR data."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from inturn.sandbox import allowed_paths, confinement

PROBE_TIMEOUT_SECONDS: Final = 30
PROBE_PROGRAM: Final = """
import sys, tempfile
from pathlib import Path
from inturn.sandbox import allowed_paths, confinement
with tempfile.TemporaryDirectory() as folder:
    readable = [*allowed_paths.needed_paths(), *allowed_paths.loaded_paths(sys.modules)]
    print(confinement.enter_sandbox(confinement.SandboxLimits(), readable, Path(folder)), flush=True)
"""
"""Nothing that enters the box comes out again: a child goes in and says what held."""


@cache
def sandbox_layers() -> str:
    """The layers that hold on this kernel, and what is missing, in words."""
    try:
        asked = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-P", "-c", PROBE_PROGRAM],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROBE_TIMEOUT_SECONDS,
            env={**confinement.CHILD_ENVIRONMENT, "PYTHONPATH": ":".join(allowed_paths.import_path())},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"none could be tried: {error}"
    lines = (asked.stdout or asked.stderr).strip().splitlines()
    return lines[0 if asked.stdout else -1] if lines else f"none could be tried: status {asked.returncode}"


def kreuzberg_version() -> str | None:
    """Of the built-in processor's parser, without loading it; None if it is not installed."""
    from importlib import metadata  # noqa: PLC0415 - slow, and needed here alone

    try:
        return metadata.version("kreuzberg")
    except metadata.PackageNotFoundError:
        return None


def ocr_languages() -> list[str]:
    """Languages that text in pictures can be read in."""
    return sorted({Path(path).stem for folder in confinement.ocr_folders() for path in folder.glob("*.traineddata")})

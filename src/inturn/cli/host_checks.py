"""Check this machine for workers: the sandbox's layers, the built-in processor's packages, OCR data."""

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
"""Runs in a child process, since the sandbox cannot be left."""


@cache
def sandbox_layers() -> str:
    """Describe the layers that this kernel supports and those it lacks."""
    try:
        probe = subprocess.run(  # noqa: S603 - our own program
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
    lines = (probe.stdout or probe.stderr).strip().splitlines()
    return lines[0 if probe.stdout else -1] if lines else f"none could be tried: status {probe.returncode}"


def kreuzberg_version() -> str | None:
    """Read the version of the built-in processor's parser without importing it; None if it is not installed."""
    from importlib import metadata  # noqa: PLC0415 - slow, and needed here alone

    try:
        return metadata.version("kreuzberg")
    except metadata.PackageNotFoundError:
        return None


def ocr_languages() -> list[str]:
    """List the languages with OCR data."""
    return sorted({Path(path).stem for folder in confinement.ocr_folders() for path in folder.glob("*.traineddata")})

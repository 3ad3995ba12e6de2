"""`inturn serve`: run the HTTP server, and worker processes with --workers."""

import json
import os
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final

import typer

from inturn import __version__
from inturn.cli import logs
from inturn.cli.session import Session, redact_password
from inturn.cli.worker import SETTING_NAMES as WORKER_SETTINGS
from inturn.cli.worker import require_module_or_processor
from inturn.config import Settings
from inturn.errors import InvalidInputError

if TYPE_CHECKING:
    from inturn.http.state import AppState

SETTING_NAMES: Final = ("host", "port", "auth", "module", *WORKER_SETTINGS)
REQUIRED_MODULES: Final = ("fastapi", "uvicorn", "python_multipart", "prometheus_client")
WORKER_POLL_SECONDS: Final = 0.5
MAX_RESTART_DELAY_SECONDS: Final = 30.0


def serve(
    session: Session,
    *,
    workers: Annotated[int, typer.Option("--workers", min=0, max=64, help="Worker processes to run as well.")] = 0,
    openapi: Annotated[bool, typer.Option("--openapi", help="Print the API's description (OpenAPI) and end.")] = False,
) -> None:
    """Serve the HTTP API and the web page until stopped.

    SIGTERM or Ctrl-C stops the server once its open requests have finished.
    """
    missing = [name for name in REQUIRED_MODULES if find_spec(name) is None]
    if missing:
        raise InvalidInputError(f"the server needs {', '.join(missing)}: pip install 'inturn[server]'")
    if openapi:
        _print_openapi()
        return
    from inturn.http import server  # noqa: PLC0415 - brings FastAPI and uvicorn
    from inturn.http.settings import server_settings  # noqa: PLC0415
    from inturn.http.state import AppState  # noqa: PLC0415

    if workers:
        require_module_or_processor(session.settings, session.settings.module)
    logs.configure(as_json=session.as_json, libraries=("uvicorn", "asyncio"))
    state = AppState(session.queue, session.blobs(may_create=True), server_settings(session.settings))
    server.require_live_api_key(state)
    listening = server.bind(state.settings.host, state.settings.port)
    processes = WorkerProcesses(session.settings, workers, as_json=session.as_json)
    try:
        server.serve(
            state,
            listening,
            grace=session.settings.grace,
            on_ready=lambda: _on_ready(session.settings, state, processes, listening.getsockname()[1]),
        )
    finally:
        processes.stop()
    logs.info("the server has stopped")


def _on_ready(settings: Settings, state: "AppState", workers: "WorkerProcesses", port: int) -> None:
    store = redact_password(settings.store)
    logs.info(
        f"inturn {__version__}, store {store}, blobs {settings.blobs or 'none'}", version=__version__, store=store
    )
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    access = "keys are needed" if state.settings.needs_keys else "no key is needed on this machine"
    logs.info(f"listening on http://{host}:{port}, {access}", host=settings.host, port=port)
    workers.start()


def _print_openapi() -> None:
    from inturn.http.app import create_app  # noqa: PLC0415 - brings FastAPI
    from inturn.http.state import AppState  # noqa: PLC0415
    from inturn.queue import Queue  # noqa: PLC0415
    from inturn.stores import open_store  # noqa: PLC0415

    app = create_app(AppState(Queue(open_store("memory://")), None))
    typer.echo(json.dumps(app.openapi(), indent=2))


class WorkerProcesses:
    """Run worker processes beside the server: restart them when they die, stop them with the server.

    Their standard input is a pipe that only this process can write to. The kernel closes it when the server dies, even
    by SIGKILL. PR_SET_PDEATHSIG would not do: it fires when the thread ends that has started a worker.
    """

    def __init__(self, settings: Settings, count: int, *, as_json: bool) -> None:
        flags = [*_worker_flags(settings), "--until-stdin-closes", *(["--json"] * as_json)]
        self._command = [sys.executable, "-m", "inturn.cli", "worker", *flags]
        self._stdin_r, self._stdin_w = os.pipe2(os.O_CLOEXEC)
        self._grace = settings.grace
        self._count = count
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="inturn-supervisor", daemon=True)

    def start(self) -> None:
        """Start all workers."""
        if self._count:
            self._processes = [self._start_worker() for _ in range(self._count)]
            self._thread.start()

    def stop(self) -> None:
        """Stop all workers; kill those that do not finish within the grace."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(self._grace + 10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        os.close(self._stdin_r)
        os.close(self._stdin_w)

    def _start_worker(self) -> subprocess.Popen[bytes]:
        # In its own session: Ctrl-C is for the server, which then signals its workers once.
        return subprocess.Popen(self._command, stdin=self._stdin_r, start_new_session=True)  # noqa: S603 - ourselves

    def _supervise(self) -> None:
        delay = 1.0
        while not self._stopping.wait(WORKER_POLL_SECONDS):
            for number, process in enumerate(self._processes):
                if process.poll() is not None and not self._stopping.is_set():
                    logs.log.warning("a worker exited with code %s; restarting it in %.0f s", process.returncode, delay)
                    if self._stopping.wait(delay):
                        return
                    delay = min(MAX_RESTART_DELAY_SECONDS, delay * 2)
                    self._processes[number] = self._start_worker()


def _worker_flags(settings: Settings) -> list[str]:
    """Build the flags that give workers the settings of the server."""
    values = {name: getattr(settings, name) for name in ("store", *WORKER_SETTINGS)}
    flags = {name.replace("_", "-"): str(value) for name, value in values.items() if value is not None}
    flags["queue"] = flags.pop("queues")
    if settings.module is not None:
        del flags["processor"]
        if not settings.is_set("queues"):
            del flags["queue"]
    arguments = [] if settings.module is None else [settings.module]
    return [*arguments, *(part for name, value in flags.items() for part in (f"--{name}", value))]

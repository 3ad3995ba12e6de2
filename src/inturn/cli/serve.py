"""`inturn serve`: the HTTP API, with workers beside it if wanted."""

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
from inturn.cli.session import Session, without_password
from inturn.cli.work import OWN_SETTINGS as WORKER_SETTINGS
from inturn.config import Settings
from inturn.errors import InvalidInputError

if TYPE_CHECKING:
    from inturn.http.service import Service

OWN_SETTINGS: Final = ("host", "port", "auth", *WORKER_SETTINGS)
NEEDED: Final = ("fastapi", "uvicorn", "python_multipart", "prometheus_client")
LOOK_EVERY: Final = 0.5
LONGEST_REST: Final = 30.0


def serve(
    session: Session,
    *,
    workers: Annotated[int, typer.Option("--workers", min=0, max=64, help="Worker processes to run beside it.")] = 0,
    openapi: Annotated[bool, typer.Option("--openapi", help="Print the API's description (OpenAPI) and end.")] = False,
) -> None:
    """Serve the HTTP API until told to stop: SIGTERM or Ctrl-C lets what is under way finish."""
    missing = [each for each in NEEDED if find_spec(each) is None]
    if missing:
        raise InvalidInputError(f"the server needs {', '.join(missing)}: pip install 'inturn[server]'")
    if openapi:
        _print_description()
        return
    from inturn.http import run  # noqa: PLC0415 - brings FastAPI and uvicorn
    from inturn.http.service import Service  # noqa: PLC0415
    from inturn.http.settings import server_settings  # noqa: PLC0415

    logs.begin(as_json=session.as_json, libraries=("uvicorn", "asyncio"))
    service = Service(session.queue, session.blobs(creates=True), server_settings(session.settings))
    run.must_be_safe(service)
    listening = run.bind(service.settings.host, service.settings.port)
    crew = Crew(session.settings, workers, as_json=session.as_json)
    try:
        run.serve(
            service,
            listening,
            grace=session.settings.grace,
            ready=lambda: _begin(session.settings, service, crew, listening.getsockname()[1]),
        )
    finally:
        crew.stop()
    logs.tell("the server has stopped")


def _begin(settings: Settings, service: "Service", crew: "Crew", port: int) -> None:
    store = without_password(settings.store)
    logs.tell(
        f"inturn {__version__}, store {store}, blobs {settings.blobs or 'none'}", version=__version__, store=store
    )
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    who = "keys are needed" if service.settings.needs_keys else "no key is needed on this machine"
    logs.tell(f"listening on http://{host}:{port}, {who}", host=settings.host, port=port)
    crew.start()


def _print_description() -> None:
    from inturn.http.app import create_app  # noqa: PLC0415 - brings FastAPI
    from inturn.http.service import Service  # noqa: PLC0415
    from inturn.queue import Queue  # noqa: PLC0415
    from inturn.stores import open_store  # noqa: PLC0415

    app = create_app(Service(Queue(open_store("memory://")), None))
    typer.echo(json.dumps(app.openapi(), indent=2))


class Crew:
    """Worker processes beside the server: started again when they die, stopped when it stops or is killed.

    Their standard input is a pipe that only this process can write to. The kernel closes it when the server dies, even
    by SIGKILL. PR_SET_PDEATHSIG would not do: it fires when the thread ends that has started a worker.
    """

    def __init__(self, settings: Settings, n: int, *, as_json: bool) -> None:
        flags = [*_flags(settings), "--until-stdin-closes", *(["--json"] * as_json)]
        self._command = [sys.executable, "-m", "inturn.cli", "worker", *flags]
        self._life_r, self._life_w = os.pipe2(os.O_CLOEXEC)
        self._grace = settings.grace
        self._n = n
        self._processes: list[subprocess.Popen[bytes]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="inturn-crew", daemon=True)

    def start(self) -> None:
        """Start them all."""
        if self._n:
            self._processes = [self._one() for _ in range(self._n)]
            self._thread.start()

    def stop(self) -> None:
        """Let them finish what runs; end those that take too long."""
        self._over.set()
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
        os.close(self._life_r)
        os.close(self._life_w)

    def _one(self) -> subprocess.Popen[bytes]:
        # In a session of its own: Ctrl-C is for the server, which then tells its workers once.
        return subprocess.Popen(self._command, stdin=self._life_r, start_new_session=True)  # noqa: S603 - ourselves

    def _watch(self) -> None:
        rest = 1.0
        while not self._over.wait(LOOK_EVERY):
            for number, process in enumerate(self._processes):
                if process.poll() is not None and not self._over.is_set():
                    logs.log.warning("a worker ended with %s; another one starts in %.0f s", process.returncode, rest)
                    if self._over.wait(rest):
                        return
                    rest = min(LONGEST_REST, rest * 2)
                    self._processes[number] = self._one()


def _flags(settings: Settings) -> list[str]:
    """The settings that workers share with the server, as they hold here."""
    values = {name: getattr(settings, name) for name in ("store", *WORKER_SETTINGS)}
    given = {name.replace("_", "-"): str(value) for name, value in values.items() if value is not None}
    return [part for name, value in given.items() for part in (f"--{name}", value)]

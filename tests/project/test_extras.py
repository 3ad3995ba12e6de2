"""The extras: each brings all that it is for, and without it one is told what to install.

No index is asked. What an installer would fetch is read from the wheel and from what is installed here, and a folder
with nothing else in it is all that the programs see.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from services import CI, RABBITMQ, fresh_redis, needs_redis, rabbitmq

from .conftest import installer, run

Install = Callable[..., Path]

CELERY = """
import sys
import inturn
from celery import Celery
from inturn.integrations.celery import install

app = Celery("fleet", broker=sys.argv[1])
app.conf.task_default_queue = "extras"
install(app, inturn.open_counters(sys.argv[2]), customer="customer_id")
for _ in range(4):
    app.send_task("work", kwargs={"customer_id": "acme"}, retry=False)
with app.connection_for_read() as connection:
    queue = app.amqp.queues["extras"](connection.default_channel)
    print([queue.get(no_ack=True).headers["inturn_level"] for _ in range(4)])
    queue.delete()
"""
DRAMATIQ = """
import sys
import dramatiq
import inturn
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from inturn.integrations.dramatiq import FairRedisBroker, install

broker = (RabbitmqBroker if sys.argv[1].startswith("amqp") else FairRedisBroker)(url=sys.argv[1])
install(broker, inturn.open_counters(sys.argv[2]), customer="customer_id")
dramatiq.set_broker(broker)

@dramatiq.actor(queue_name="extras")
def work(customer_id): ...

print([work.send("acme").options["inturn_level"] for _ in range(4)])
"""
USES = {
    "client": "import inturn; inturn.Client('http://127.0.0.1:1').close()",
    "extract": "import kreuzberg, inturn.extract.extract",
    "postgres": "import inturn.stores.postgres.store",
    "s3": "import inturn; inturn.open_blobs('s3://bucket/prefix')",
    "server": "import inturn.http.server, uvloop, httptools",
    "testing": "import inturn.testing.contract",
}


@cache
def required(name: str, extras: frozenset[str]) -> frozenset[str]:
    """The distributions that an installer would bring for one."""
    return _closed(metadata.distribution(name).requires or [], extras) | {name}


def _closed(requirements: list[str], extras: frozenset[str]) -> frozenset[str]:
    result: set[str] = set()
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            result |= required(requirement.name, frozenset(requirement.extras))
    return frozenset(result)


@pytest.fixture(scope="session")
def installed_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel alone, installed and compiled once."""
    folder = tmp_path_factory.mktemp("extras") / "installed"
    run(*installer(), "--quiet", "--no-deps", "--target", folder, wheel)
    return folder


@pytest.fixture
def install(installed_wheel: Path, tmp_path: Path) -> Install:
    """A folder as an installer fills it: links to the wheel, and to what it needs with these extras."""

    def one(*extras: str) -> Path:
        folder = tmp_path / "-".join(["installed", *extras])
        folder.mkdir()
        for top in installed_wheel.iterdir():
            (folder / top.name).symlink_to(top)
        (ours,) = metadata.distributions(path=[str(folder)])
        for name in _closed(ours.requires or [], frozenset({"", *extras})):
            known = metadata.distribution(name)
            for part in {file.parts[0] for file in known.files or ()} - {"..", "__pycache__"}:
                if not (folder / part).exists():
                    (folder / part).symlink_to(Path(str(known.locate_file(part))).absolute())
        return folder

    return one


def python(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it with that folder and Python's own library, and nothing else."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("INTURN_", "PYTHON"))}
    return subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-S", "-c", code, *arguments],
        cwd=folder.parent,
        env=environment | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@needs_redis
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
@pytest.mark.parametrize(("extra", "program"), [("celery", CELERY), ("dramatiq", DRAMATIQ)])
def test_a_fleet_runs_on_either_broker_with_its_extra_alone(
    install: Install, extra: str, program: str, broker: str
) -> None:
    if broker == "rabbitmq" and not RABBITMQ and not CI:
        pytest.skip("no RabbitMQ here: apt-get install rabbitmq-server")
    done = python(install(extra), program, fresh_redis() if broker == "redis" else rabbitmq(), fresh_redis())
    assert (done.returncode, done.stdout.strip()) == (0, "[1, 1, 1, 2]"), done.stderr


@needs_redis
def test_counters_on_redis_need_their_extra_alone(install: Install) -> None:
    code = "import sys, inturn; print(inturn.open_counters(sys.argv[1]).check('acme')[0].level)"
    done = python(install("redis"), code, fresh_redis())
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr


@pytest.mark.parametrize("extra", USES)
def test_an_extra_brings_what_it_is_for(install: Install, extra: str) -> None:
    done = python(install(extra), USES[extra])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import inturn; inturn.Client", "client"),
        ("from inturn import Client", "client"),
        ("import inturn; inturn.open_counters('redis://127.0.0.1:1').check('acme')", "redis"),
        ("import inturn; inturn.open('postgresql://127.0.0.1:1/x')", "postgres"),
        ("import inturn; inturn.open_blobs('s3://bucket/prefix').put(__import__('io').BytesIO(b''))", "s3"),
        ("import inturn.integrations.celery", "celery"),
        ("import inturn.integrations.dramatiq", "dramatiq"),
        ("import sys, inturn.cli; sys.argv = ['inturn', 'serve']; inturn.cli.main()", "server"),
        ("import inturn.testing.contract", "testing"),
    ],
)
def test_without_its_extra_one_is_told_what_to_install(install: Install, code: str, extra: str) -> None:
    done = python(install(), code)
    assert done.returncode != 0
    assert f"pip install 'inturn[{extra}]'" in done.stderr.splitlines()[-1], done.stderr


def test_every_extra_is_tried_here() -> None:
    known = set(metadata.metadata("inturn").get_all("Provides-Extra") or ())
    assert known == {"celery", "dramatiq", "redis", *USES}

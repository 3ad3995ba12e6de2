"""A broker of each kind, shared by all tests of the run."""

import pytest

from services import CI, RABBITMQ, fresh_redis, rabbitmq


@pytest.fixture(scope="module", params=["rabbitmq", "redis"])
def broker(request: pytest.FixtureRequest) -> str:
    """The address of a broker of each kind."""
    if request.param == "redis":
        return fresh_redis()
    if not RABBITMQ and not CI:
        pytest.skip("no RabbitMQ here: apt-get install rabbitmq-server")
    return rabbitmq()

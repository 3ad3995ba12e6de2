"""What a proposed policy would have meant for the documents of the last day."""

from collections.abc import AsyncIterator

from inturn.errors import InvalidInputError
from inturn.http.jobs import MOST, Jobs
from inturn.policy import Policy


class Previews:
    """Jobs that read the store. `url` is where it is; None if no other process can open it."""

    def __init__(self, jobs: Jobs, url: str | None) -> None:
        self._jobs = jobs
        self._url = url

    def check_room(self) -> None:
        """Refuse what cannot be done, or not now."""
        if self._url is None or self._url.startswith("memory:"):
            raise InvalidInputError("a queue in memory cannot be previewed: another process has to read its history")
        self._jobs.check_room()

    def told(self, policy: Policy, since: int) -> AsyncIterator[bytes]:
        """A line for each step: how far it is, then the comparison or what went wrong."""
        asked = {"store": self._url, "policy": policy.plain(), "since": since, "most": MOST}
        return self._jobs.told("inturn.simulate.preview", asked)

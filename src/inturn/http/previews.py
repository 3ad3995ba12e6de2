"""What the past tells of a policy: what another one would have meant, and whether a change of it came true."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

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
            raise InvalidInputError("a queue in memory cannot be played again: another process has to read its history")
        self._jobs.check_room()

    def told(self, policy: Policy, since: int) -> AsyncIterator[bytes]:
        """A line for each step: how far it is, then the comparison or what went wrong."""
        return self._told("policy", policy=policy.plain(), since=since)

    def judged(self, version: int, now: int) -> AsyncIterator[bytes]:
        """The same with a judgement at the end."""
        return self._told("judge", version=version, now=now)

    def replayed(self, plan: Mapping[str, Any], since: int, until: int | None) -> AsyncIterator[bytes]:
        """The same with the comparison of a plan with what was."""
        return self._told("replay", plan=plan, since=since, until=until)

    def _told(self, kind: str, **asked: Any) -> AsyncIterator[bytes]:
        line = {"kind": kind, "store": self._url, "most": MOST, **asked}
        return self._jobs.told("inturn.simulate.preview", line)

"""What the past tells of a policy: what another one would have meant, and whether a change of it came true."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from inturn.errors import InvalidInputError
from inturn.http.simulation_jobs import MAX_JOB_DOCUMENTS, JobRunner
from inturn.policy import Policy


class ReplayJobs:
    """Jobs that read the store. `url` is where it is; None if no other process can open it."""

    def __init__(self, runner: JobRunner, url: str | None) -> None:
        self._runner = runner
        self._url = url

    def require_capacity(self) -> None:
        """Refuse what cannot be done, or not now."""
        if self._url is None or self._url.startswith("memory:"):
            raise InvalidInputError("a queue in memory cannot be played again: another process has to read its history")
        self._runner.require_capacity()

    def preview_policy(self, policy: Policy, since: int) -> AsyncIterator[bytes]:
        """A line for each step: how far it is, then the comparison or what went wrong."""
        return self._stream("policy", policy=policy.to_dict(), since=since)

    def evaluate_version(self, version: int, now: int) -> AsyncIterator[bytes]:
        """The same with a judgement at the end."""
        return self._stream("judge", version=version, now=now)

    def replay(self, plan: Mapping[str, Any], since: int, until: int | None) -> AsyncIterator[bytes]:
        """The same with the comparison of a plan with what was."""
        return self._stream("replay", plan=plan, since=since, until=until)

    def _stream(self, kind: str, **request: Any) -> AsyncIterator[bytes]:
        line = {"kind": kind, "store": self._url, "most": MAX_JOB_DOCUMENTS, **request}
        return self._runner.stream("inturn.analysis.job_process", line)

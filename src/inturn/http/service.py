"""What all routes of one server share."""

import logging
from types import TracebackType
from typing import Final, Self

from fastapi import Request

from inturn.blobs import Blobs, FolderBlobs
from inturn.clock import Clock, SystemClock
from inturn.errors import InturnError, InvalidInputError
from inturn.http.course import Course
from inturn.http.estimates import Estimates
from inturn.http.jobs import Jobs
from inturn.http.keys import Keyring
from inturn.http.limits import FailedLogins, Quotas, Rates
from inturn.http.live import Hub
from inturn.http.metrics import Tally
from inturn.http.previews import Previews
from inturn.http.sessions import Sessions
from inturn.http.settings import ServerSettings
from inturn.http.shares import Shares
from inturn.http.watcher import Watcher
from inturn.insights import Insights, Roster
from inturn.model import SECOND
from inturn.queue import Queue

log: Final = logging.getLogger("inturn.http")
PRICES_KEPT: Final = SECOND


class Service:
    """A queue and its blobs, who may come in, how much they may do, and one watcher of events for everything live."""

    def __init__(
        self, queue: Queue, blobs: Blobs | None, settings: ServerSettings | None = None, *, clock: Clock | None = None
    ) -> None:
        clock = clock or SystemClock()
        self.settings = settings or ServerSettings()
        self.queue = queue
        self.blobs = blobs
        self.insights = Insights(queue.store, clock)
        self.clock = clock
        self.keyring = Keyring(queue.store.keys, clock)
        self.sessions = Sessions(self.keyring, clock)
        self.rates = Rates(self.settings.limits, clock)
        self.failed_logins = FailedLogins(self.settings.limits, clock)
        self.quotas = Quotas(self.settings.limits, queue.store, clock)
        self._priced = (-PRICES_KEPT, False)
        self.estimates = Estimates()
        self.shares = Shares()
        self.tally = Tally(queue.store)
        self.estimates.on_compared.append(self.tally.estimate_error)
        self.course = Course(self.insights, clock)
        self.tally.on_wait.append(self.course.hear)
        self.watcher = Watcher(queue.store, most=self.settings.limits.polls)
        self.hub = Hub(queue.store, most=self.settings.limits.listeners)
        self.roster = Roster(queue.store, clock)
        self.watcher.listeners += [self.estimates.hear, self.shares.hear, self.tally.hear, self.roster.hear]
        self.watcher.listeners.append(self.hub.hear)  # the last: who hears of a change then asks for what has changed
        self.watcher.chores += [self.keyring.note_uses, self.course.look]
        self.jobs = Jobs()
        self.previews = Previews(self.jobs, self.settings.store)

    @property
    def keeps_near(self) -> bool:
        """Whether files are kept on this machine, where a small one takes about as long as a commit."""
        return isinstance(self.blobs, FolderBlobs)

    def kept_files(self) -> Blobs:
        """Where files are kept."""
        if self.blobs is None:
            raise InvalidInputError("this server keeps no files: it was started without --blobs; send a uri instead")
        return self.blobs

    def prices_pages(self) -> bool:
        """Whether pages cost anything, as of a second ago."""
        now = self.clock.now()
        if not 0 <= now - self._priced[0] < PRICES_KEPT:
            self._priced = (now, self.queue.policy().policy.costs.per_page > 0)
        return self._priced[1]

    @property
    def is_stopping(self) -> bool:
        """Whether the server was told to stop."""
        return self.watcher.is_stopping

    def release(self) -> None:
        """Let go of all who wait or listen: the server stops. On the event loop."""
        self.watcher.release()
        self.hub.release()

    def __enter__(self) -> Self:
        self.watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.watcher.stop()
        try:
            self.keyring.note_uses(at_once=True)
        except InturnError as wrong:
            log.warning("when keys were last used could not be kept: %s", wrong.code)


def service_of(request: Request) -> Service:
    """The service of the application that answers this request."""
    found: Service = request.app.state.service
    return found

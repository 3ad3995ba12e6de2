"""Hold the state that all routes of one server share."""

from functools import partial
from types import TracebackType
from typing import Final, Self

from fastapi import Request

from inturn.blobs import Blobs, FolderBlobs
from inturn.clock import Clock, SystemClock
from inturn.errors import InturnError, InvalidInputError
from inturn.http import log
from inturn.http.event_poller import EventPoller
from inturn.http.failures import FailureCounter
from inturn.http.key_cache import ApiKeyCache
from inturn.http.limits import FailedLogins, Quotas, RateLimiter
from inturn.http.metrics import ServerMetrics
from inturn.http.notices import NoticeCache
from inturn.http.sessions import Sessions
from inturn.http.settings import ServerSettings
from inturn.http.simulation_jobs import SimulationJobs
from inturn.http.sse import Broadcaster
from inturn.http.stats import EstimateTracker, QueueHistory, WorkerShares
from inturn.insights import CustomerIndex, Insights
from inturn.queue import Queue
from inturn.values import SECOND
from inturn.worker.history import HistoryThread

PAGE_PRICING_TTL: Final = SECOND


class AppState:
    """The queue, its blobs, authentication, limits, statistics, and the one event poller that feeds them."""

    def __init__(
        self, queue: Queue, blobs: Blobs | None, settings: ServerSettings | None = None, *, clock: Clock | None = None
    ) -> None:
        clock = clock or SystemClock()
        self.settings = settings or ServerSettings()
        self.queue = queue
        self.blobs = blobs
        self.insights = Insights(queue, clock)
        self.clock = clock
        self.key_cache = ApiKeyCache(queue.api_keys, clock)
        self.sessions = Sessions(self.key_cache, clock)
        self.rate_limiter = RateLimiter(self.settings.limits, clock)
        self.failed_logins = FailedLogins(self.settings.limits, clock)
        self.quotas = Quotas(self.settings.limits, queue, clock)
        self._page_pricing = (-PAGE_PRICING_TTL, False)
        self.estimates = EstimateTracker()
        self.failures = FailureCounter(queue)
        self.shares = WorkerShares(queue, self.insights)
        self.metrics = ServerMetrics(queue)
        self.estimates.comparison_listeners.append(self.metrics.observe_estimate_error)
        self.history = QueueHistory(self.insights, clock)
        self.notices = NoticeCache(self.insights, self.history, clock)
        self.metrics.wait_listeners.append(self.history.add_wait)
        self.shares.work_listeners.append(self.metrics.on_work)
        self.history.read_tasks.append(self.shares.measure)
        self.shares.measure()  # shares are of what workers do from now on
        self.event_poller = EventPoller(queue, max_waiters=self.settings.limits.long_polls)
        self.broadcaster = Broadcaster(queue, max_subscribers=self.settings.limits.listeners)
        self.customer_index = CustomerIndex(queue, clock)
        self.event_poller.listeners += [
            self.estimates.on_events,
            self.metrics.on_events,
            self.customer_index.on_events,
            self.broadcaster.on_events,  # last: a page that gets an event then requests the new figures
        ]
        self.insights.open_forecasts = self.estimates.open_forecasts
        self.event_poller.periodic_tasks += [
            partial(self.estimates.learn, queue, self.insights),
            self.key_cache.flush_last_used,
            self.history.refresh_if_due,
        ]
        self.simulation_jobs = SimulationJobs(self.settings.store)
        self._history_thread = HistoryThread(queue)

    @property
    def has_local_blobs(self) -> bool:
        """Whether blobs are on this machine, where storing a small one takes about as long as a commit."""
        return isinstance(self.blobs, FolderBlobs)

    def require_blobs(self) -> Blobs:
        """Return the blobs; refuse files where the server has none."""
        if self.blobs is None:
            raise InvalidInputError("this server stores no files: it was started without --blobs; send a uri instead")
        return self.blobs

    def charges_per_page(self) -> bool:
        """Whether the policy charges for pages; cached for a second."""
        now = self.clock.now()
        if not 0 <= now - self._page_pricing[0] < PAGE_PRICING_TTL:
            self._page_pricing = (now, self.queue.policy().policy.costs.per_page > 0)
        return self._page_pricing[1]

    @property
    def is_stopping(self) -> bool:
        """Whether the server is shutting down."""
        return self.event_poller.is_stopping

    def begin_shutdown(self) -> None:
        """End long polls and event streams. Runs on the event loop."""
        self.event_poller.begin_shutdown()
        self.broadcaster.begin_shutdown()

    def __enter__(self) -> Self:
        self.event_poller.start()
        self._history_thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.event_poller.stop()
        self._history_thread.stop()
        try:
            self.key_cache.flush_last_used(force=True)
        except InturnError as exc:
            log.warning("the last use of API keys could not be stored: %s", exc.code)


def get_app_state(request: Request) -> AppState:
    """Return the state of the application that serves the request."""
    app_state: AppState = request.app.state.app_state
    return app_state

"""Call a server of `inturn serve` over HTTP. Needs httpx2: pip install 'inturn[client]'."""

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypedDict
from urllib.parse import quote

try:
    import httpx2
except ImportError as missing:
    raise ImportError("inturn.Client needs httpx2, which is not installed: pip install 'inturn[client]'") from missing

from inturn import errors
from inturn.model import ENDED, Check, Receipt

MAX_ATTEMPTS: Final = 4
MAX_RETRY_DELAY_SECONDS: Final = 30.0
MAX_POLL_SECONDS: Final = 30.0
PARTS_PAGE: Final = 500
RETRYABLE_STATUSES: Final = frozenset({429, 503})


class RemoteDocument(TypedDict):
    """A document as the server returns it; times are microseconds."""

    id: str
    customer: str
    name: str
    state: str
    level: int
    count: int
    expedited: bool
    submitted_at: int
    ready_at: int
    due_at: int | None
    started_at: int | None
    began_at: int | None
    worked: int | None
    finished_at: int | None
    attempt: int
    max_attempts: int
    error: str | None
    uri: str | None
    size: int | None
    sha256: str | None
    media_type: str | None
    pages: int | None
    batch: str | None
    group: str | None
    queue: str
    step: int
    steps: list[str]
    ahead: list[str]
    parent: str | None
    part: int | None
    cost: float
    start_by: int | None
    metadata: dict[str, Any]
    worker: str | None


class RemoteError(errors.InturnError):
    """The server refused the request, or could not be reached (`status` is 0)."""

    code = "remote"

    def __init__(self, message: str, status: int = 0, code: str = "remote") -> None:
        super().__init__(message)
        self.status: Final = status
        self.remote_code: Final = code


class Client:
    """A connection pool to one server. Interrupted calls are repeated where that is safe."""

    def __init__(self, url: str = "http://127.0.0.1:8000", api_key: str | None = None, *, timeout: float = 60) -> None:
        if not url.startswith(("http://", "https://")):
            raise errors.InvalidInputError(f"a server's address begins with http:// or https://, not {url!r}")
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def submit(  # noqa: PLR0913 - one parameter for each field of the form
        self,
        files: Iterable[Path | str],
        *,
        customer: str | None = None,
        batch: str | None = None,
        group: str | None = None,
        queue: str | None = None,
        steps: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> list[Receipt]:
        """Submit up to ten files of one customer to a queue, with an idempotency key of its own unless one is given.

        `steps` names all queues that they pass through, the first included.
        """
        if isinstance(steps, str):
            raise errors.InvalidInputError(f"steps must be a list of queues; one alone is given as [{steps!r}]")
        fields = {"customer": customer, "batch": batch, "group": group, "queue": queue}
        fields["steps"] = ",".join(steps) or None
        fields["metadata"] = None if metadata is None else json.dumps(metadata)
        data = {name: value for name, value in fields.items() if value is not None}
        if isinstance(files, str | Path):
            raise errors.InvalidInputError(f"files must be a list of paths; one alone is given as [{str(files)!r}]")
        paths = [Path(file) for file in files]
        if not paths:
            raise errors.InvalidInputError("nothing to submit: files is empty")
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}

        def send() -> httpx2.Response:
            with ExitStack() as opened:
                parts = [("file", (path.name, opened.enter_context(path.open("rb")))) for path in paths]
                return self._http.post("/v1/documents", data=data, files=parts, headers=headers)

        return _parse_receipts(self._request(send))

    def submit_all(
        self, documents: Sequence[Mapping[str, Any]], *, customer: str | None = None, idempotency_key: str | None = None
    ) -> list[Receipt]:
        """Submit texts and references: mappings with `name`, `text` or `uri`, and other fields of a document."""
        body: dict[str, Any] = {"documents": [dict(document) for document in documents]}
        if customer is not None:
            body["customer"] = customer
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return _parse_receipts(self._request(lambda: self._http.post("/v1/documents", json=body, headers=headers)))

    def document(self, id: str, *, wait: float = 0) -> RemoteDocument:
        """Return a document; with `wait`, after it has ended or that many seconds (at most 60) have passed."""
        document: RemoteDocument = self._get(f"/v1/documents/{quote(id, safe='')}", {"wait": wait} if wait else {})
        return document

    def documents(self, **where: Any) -> Iterator[RemoteDocument]:
        """Iterate over documents, newest first, or `sort="oldest"`.

        Conditions are state, customer, level, batch, group, queue, parent and text. `since` and `until` (microseconds)
        choose those submitted in a range, or with `time="ended"` those ended in it. Parts of split documents are left
        out, unless `queue`, `parent` or `parts` (include, only) is given.
        """
        after: str | None = None
        while True:
            page = self._get("/v1/documents", where if after is None else {**where, "after": after})
            yield from page["documents"]
            after = page["next"]
            if after is None:
                return

    def search(self, text: str, *, limit: int = 10, parts: str = "exclude") -> dict[str, Any]:
        """Search `documents`, `batches`, `customers` and `errors`; `is_complete` is False if more may match.

        Parts of split documents are found by their id alone, unless `parts` is include or only.
        """
        matches: dict[str, Any] = self._get("/v1/search", {"q": text, "limit": limit, "parts": parts})
        return matches

    def wait(self, id: str, timeout: float) -> RemoteDocument:
        """Return the document after it has ended, or as it is after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            document = self.document(id, wait=max(0.0, min(MAX_POLL_SECONDS, left)))
            if document["state"] in ENDED or left <= 0:
                return document

    def result(self, id: str, *, wait: float = 0) -> Any:
        """Return the result of a document that is done."""
        return self._get(f"/v1/documents/{quote(id, safe='')}/result", {"wait": wait} if wait else {})["result"]

    def results(self, id: str) -> list[dict[str, Any]]:
        """Return the results of all steps that are done, each with its `step`, `queue`, `result` and `files`.

        A result of more than 256 KiB is None, with a `result_file` for `step_file`.
        """
        results: list[dict[str, Any]] = self._get(f"/v1/documents/{quote(id, safe='')}/results", {})["results"]
        return results

    def step_file(self, id: str, step: int, name: str) -> bytes:
        """Return a file of the result of one step."""
        path = f"/v1/documents/{quote(id, safe='')}/results/{step}/files/{quote(name, safe='')}"
        return self._request(lambda: self._http.get(path)).content

    def parts(self, id: str) -> Iterator[dict[str, Any]]:
        """Iterate over the parts of a document by number, each with its `state`, `result` or `error`, and `files`.

        A result of more than 256 KiB is None, with a `result_file`; `result` of the part returns it.
        """
        after: int | None = 0
        while after is not None:
            page = self._get(f"/v1/documents/{quote(id, safe='')}/parts", {"after": after, "limit": PARTS_PAGE})
            yield from page["parts"]
            after = page["next"]

    def content(self, id: str) -> bytes:
        """Return the bytes of a document as they were submitted."""
        path = f"/v1/documents/{quote(id, safe='')}/content"
        return self._request(lambda: self._http.get(path)).content

    def why(self, id: str, language: str = "en") -> dict[str, Any]:
        """Explain the position of a document; `sentence` is the explanation in words."""
        path, headers = f"/v1/documents/{quote(id, safe='')}/why", {"Accept-Language": language}
        explanation: dict[str, Any] = self._request(lambda: self._http.get(path, headers=headers)).json()
        return explanation

    def timeline(self, id: str) -> dict[str, Any]:
        """Return the events of a document as `moments`, oldest first, each attempt with its error."""
        timeline: dict[str, Any] = self._get(f"/v1/documents/{quote(id, safe='')}/timeline", {})
        return timeline

    def history(self, **where: Any) -> dict[str, Any]:
        """Return what happened in the last hour, in steps, or `since` and `until` other times, in microseconds.

        `by` is state, queue, level or customer; `queue`, `customer`, `top` and `step` are as in `GET /v1/history`.
        """
        names = {"since": "from", "until": "to"}
        history: dict[str, Any] = self._get("/v1/history", {names.get(name, name): where[name] for name in where})
        return history

    def cancel(self, id: str) -> RemoteDocument:
        """Cancel a document that has not ended."""
        path = f"/v1/documents/{quote(id, safe='')}"
        document: RemoteDocument = self._request(lambda: self._http.delete(path), retry=False).json()
        return document

    def retry(self, id: str, *, from_start: bool = False) -> Receipt:
        """Retry a document that ended without a result, from the step that it stopped at, or from its first."""
        path, params = f"/v1/documents/{quote(id, safe='')}/retry", {"from_start": True} if from_start else {}
        return Receipt(**self._request(lambda: self._http.post(path, params=params), retry=False).json())

    def retry_all(self, *, dry_run: bool = False, from_start: bool = False, **where: Any) -> int:
        """Retry all matching documents that ended without a result; return how many. With `dry_run`, only count them.

        The conditions are those of `documents`; `since` and `until` are about the time they ended, unless `time` says
        otherwise.
        """
        body = {name: value for name, value in where.items() if value is not None}
        body |= {"dry_run": dry_run, "from_start": from_start}
        response = self._request(lambda: self._http.post("/v1/documents/retry", json=body), retry=dry_run)
        return int(response.json()["documents"])

    def batch(self, name: str) -> dict[str, Any]:
        """Return the progress of a batch: of its documents, not of the parts that some are split into."""
        progress: dict[str, Any] = self._get(f"/v1/batches/{quote(name, safe='')}", {})
        return progress

    def failures(self, *, since: int | None = None, until: int | None = None) -> dict[str, Any]:
        """Return failed documents as `groups` by kind of error; without `since`, of the last day. Operators only."""
        where = {"since": since, "until": until}
        groups: dict[str, Any] = self._get("/v1/failures", {name: at for name, at in where.items() if at is not None})
        return groups

    def retry_failures(
        self,
        group: str,
        *,
        since: int | None = None,
        until: int | None = None,
        from_start: bool = False,
        dry_run: bool = False,
        why: str = "",
    ) -> int:
        """Retry the documents of a group of `failures`; return how many. With `dry_run`, only count them."""
        where = {"since": since, "until": until, "from_start": from_start, "dry_run": dry_run}
        body = {name: value for name, value in where.items() if value is not None}
        path, params = f"/v1/failures/{quote(group, safe='')}/retry", {"why": why} if why else {}
        response = self._request(lambda: self._http.post(path, json=body, params=params), retry=dry_run)
        return int(response.json()["documents"])

    def workers(self) -> list[dict[str, Any]]:
        """Return all workers as they last reported, with the documents that their slots process; operators only."""
        workers: list[dict[str, Any]] = self._get("/v1/workers", {})["workers"]
        return workers

    def pause_worker(self, name: str, why: str = "") -> None:
        """Let a worker take no more documents; it finishes what it has. Operators only."""
        self._post(f"/v1/workers/{quote(name, safe='')}/pause", why)

    def resume_worker(self, name: str, why: str = "") -> None:
        """Let a paused worker take documents again. Operators only."""
        self._post(f"/v1/workers/{quote(name, safe='')}/resume", why)

    def queues(self) -> list[dict[str, Any]]:
        """Return all queues with settings, pauses, and waiting and running documents; operators only."""
        queues: list[dict[str, Any]] = self._get("/v1/queues", {})["queues"]
        return queues

    def change_queue(self, name: str, *, why: str = "", **changes: Any) -> dict[str, Any]:
        """Change settings of a queue, known or new: description, weight, cap, rate, manual, form. Operators only.

        A `rate` is `{"documents": 100, "per": 60_000_000}`, a `form` a list of fields.
        """
        path, params = f"/v1/queues/{quote(name, safe='')}", {"why": why} if why else {}
        response = self._request(lambda: self._http.patch(path, json=changes, params=params), retry=False)
        queue: dict[str, Any] = response.json()
        return queue

    def pause_queue(self, name: str, why: str = "") -> None:
        """Start no documents of one queue; running ones finish. Operators only."""
        self._post(f"/v1/queues/{quote(name, safe='')}/pause", why)

    def resume_queue(self, name: str, why: str = "") -> None:
        """Start documents of one queue again. Operators only."""
        self._post(f"/v1/queues/{quote(name, safe='')}/resume", why)

    def queue_documents(self, name: str) -> dict[str, Any]:
        """Return what waits in a queue, in its order, and what is `taken` by whom. Operators only."""
        documents: dict[str, Any] = self._get(f"/v1/queues/{quote(name, safe='')}/documents", {})
        return documents

    def take(self, queue: str, *, lease: int | None = None) -> dict[str, Any] | None:
        """Take the next document of a queue that people serve; None if there is none. Operators only.

        Its `fence` goes with everything that is done to it. Without `lease` (microseconds) it is held for half an hour.
        """
        path, params = f"/v1/queues/{quote(queue, safe='')}/take", {} if lease is None else {"lease": lease}
        response = self._request(lambda: self._http.post(path, params=params), retry=False)
        taken: dict[str, Any] | None = response.json()["taken"]
        return taken

    def extend(self, id: str, fence: int, *, lease: int | None = None) -> dict[str, Any]:
        """Hold a document that was taken for as long again, from now."""
        return self._act(id, "extend", {"fence": fence}, {} if lease is None else {"lease": lease})

    def finish(self, id: str, fence: int, result: Any = None, *, next: str | None = None) -> dict[str, Any]:
        """Record the result of a document that was taken; it goes to the queue `next`, or to the next of its steps."""
        body = {"fence": fence, "result": result}
        return self._act(id, "finish", body if next is None else {**body, "next": next})

    def release(self, id: str, fence: int) -> dict[str, Any]:
        """Hand back a document that was taken."""
        return self._act(id, "release", {"fence": fence})

    def reject(self, id: str, fence: int, reason: str) -> dict[str, Any]:
        """Fail a document that was taken for good."""
        return self._act(id, "reject", {"fence": fence, "reason": reason})

    def _act(
        self, id_: str, verb: str, body: Mapping[str, Any], params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send what a person does with a document. A repeated call has the same answer."""
        path = f"/v1/documents/{quote(id_, safe='')}/{verb}"
        answer: dict[str, Any] = self._request(lambda: self._http.post(path, json=body, params=params)).json()
        return answer

    def check(self, customer: str | None = None, count: int = 1, *, idempotency_key: str | None = None) -> list[Check]:
        """Check the levels of a customer's next documents, for a queue of your own."""
        body = {"count": count} if customer is None else {"customer": customer, "count": count}
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        response = self._request(lambda: self._http.post("/v1/checks", json=body, headers=headers))
        return [Check(**check) for check in response.json()["checks"]]

    def _post(self, path: str, why: str) -> None:
        """Send an operator's action, with the reason for the audit log."""
        self._request(lambda: self._http.post(path, params={"why": why} if why else {}), retry=False)

    def _get(self, path: str, params: Mapping[str, Any]) -> Any:
        return self._request(lambda: self._http.get(path, params=dict(params))).json()

    def _request(self, send: Any, *, retry: bool = True) -> httpx2.Response:
        """Send a request; repeat it with backoff while the server is busy or does not respond."""
        backoff = 0.2
        for left in reversed(range(MAX_ATTEMPTS if retry else 1)):
            try:
                response: httpx2.Response = send()
            except httpx2.TransportError as error:
                if not left:
                    raise RemoteError(f"the server did not respond: {error}; check its address") from error
                retry_after = 0.0
            else:
                if response.is_success:
                    return response
                if response.status_code not in RETRYABLE_STATUSES or not left:
                    raise _parse_error(response)
                retry_after = _parse_retry_after(response.headers.get("retry-after"))
            time.sleep(min(MAX_RETRY_DELAY_SECONDS, max(backoff, retry_after)))
            backoff *= 2
        raise AssertionError("the last attempt returns or raises")


def _parse_receipts(response: httpx2.Response) -> list[Receipt]:
    return [Receipt(**receipt) for receipt in response.json()["receipts"]]


def _parse_retry_after(text: str | None) -> float:
    """Parse Retry-After in seconds; a proxy may send a date, which counts as 0."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else 0.0


def _parse_error(response: httpx2.Response) -> errors.InturnError:
    """Build the error of a problem response, of the class that the library itself would raise, if there is one."""
    try:
        problem = response.json()
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return RemoteError(f"the server responded with status {response.status_code}", response.status_code)
    classes = (value for value in vars(errors).values() if isinstance(value, type))
    by_code = {kind.code: kind for kind in classes if issubclass(kind, errors.InturnError)}
    return by_code[code](detail) if code in by_code else RemoteError(detail, response.status_code, code)

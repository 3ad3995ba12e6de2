"""A small client of `inturn serve`: files in, results out, over HTTP. Needs httpx2: pip install 'inturn[client]'."""

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
RETRYABLE_STATUSES: Final = frozenset({429, 503})


class RemoteDocument(TypedDict):
    """A document as the server tells it; times are microseconds."""

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
    cost: float
    start_by: int | None
    metadata: dict[str, Any]
    worker: str | None


class RemoteError(errors.InturnError):
    """The server refused, or could not be reached; `status` is 0 then."""

    code = "remote"

    def __init__(self, message: str, status: int = 0, code: str = "remote") -> None:
        super().__init__(message)
        self.status: Final = status
        self.remote_code: Final = code


class Client:
    """One connection pool to one server. Calls that were cut off are repeated where that is safe."""

    def __init__(self, url: str = "http://127.0.0.1:8000", api_key: str | None = None, *, timeout: float = 60) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def submit(
        self,
        files: Iterable[Path | str],
        *,
        customer: str | None = None,
        batch: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> list[Receipt]:
        """Send up to ten files as documents of one customer. Without a `key` one is made: no file comes in twice."""
        fields = {"customer": customer, "batch": batch, "metadata": None if metadata is None else json.dumps(metadata)}
        data = {name: value for name, value in fields.items() if value is not None}
        paths = [Path(file) for file in files]
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}

        def send() -> httpx2.Response:
            with ExitStack() as opened:
                parts = [("file", (path.name, opened.enter_context(path.open("rb")))) for path in paths]
                return self._http.post("/v1/documents", data=data, files=parts, headers=headers)

        return _parse_receipts(self._request(send))

    def submit_all(
        self, documents: Sequence[Mapping[str, Any]], *, customer: str | None = None, idempotency_key: str | None = None
    ) -> list[Receipt]:
        """Send texts and references: each a mapping with `name` and `text` or `uri`, and what else a document has."""
        body: dict[str, Any] = {"documents": [dict(document) for document in documents]}
        if customer is not None:
            body["customer"] = customer
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return _parse_receipts(self._request(lambda: self._http.post("/v1/documents", json=body, headers=headers)))

    def document(self, id: str, *, wait: float = 0) -> RemoteDocument:
        """One document; with `wait`, when it has ended or so many seconds have passed, at most 60."""
        remote_document: RemoteDocument = self._get(
            f"/v1/documents/{quote(id, safe='')}", {"wait": wait} if wait else {}
        )
        return remote_document

    def documents(self, **where: Any) -> Iterator[RemoteDocument]:
        """All documents that match: by state, customer, level, batch, text; newest first, or `sort="oldest"`."""
        after: str | None = None
        while True:
            page = self._get("/v1/documents", where if after is None else {**where, "after": after})
            yield from page["documents"]
            after = page["next"]
            if after is None:
                return

    def wait(self, id: str, timeout: float) -> RemoteDocument:
        """The document when it has ended, or as it is after so many seconds."""
        until = time.monotonic() + timeout
        while True:
            left = until - time.monotonic()
            remote_document = self.document(id, wait=max(0.0, min(MAX_POLL_SECONDS, left)))
            if remote_document["state"] in ENDED or left <= 0:
                return remote_document

    def result(self, id: str, *, wait: float = 0) -> Any:
        """A done document's result."""
        result = self._get(f"/v1/documents/{quote(id, safe='')}/result", {"wait": wait} if wait else {})
        return result["result"]

    def content(self, id: str) -> bytes:
        """A document's bytes as they were submitted."""
        path = f"/v1/documents/{quote(id, safe='')}/content"
        return self._request(lambda: self._http.get(path)).content

    def why(self, id: str, language: str = "en") -> dict[str, Any]:
        """Why a document is where it is; `sentence` says it in words."""
        path, headers = f"/v1/documents/{quote(id, safe='')}/why", {"Accept-Language": language}
        result: dict[str, Any] = self._request(lambda: self._http.get(path, headers=headers)).json()
        return result

    def timeline(self, id: str) -> dict[str, Any]:
        """What happened to a document so far: `moments`, oldest first, each attempt with its error."""
        result: dict[str, Any] = self._get(f"/v1/documents/{quote(id, safe='')}/timeline", {})
        return result

    def cancel(self, id: str) -> RemoteDocument:
        """Cancel a document that has not ended."""
        path = f"/v1/documents/{quote(id, safe='')}"
        remote_document: RemoteDocument = self._request(lambda: self._http.delete(path), retry=False).json()
        return remote_document

    def retry(self, id: str) -> Receipt:
        """Try a document again that ended without a result."""
        path = f"/v1/documents/{quote(id, safe='')}/retry"
        return Receipt(**self._request(lambda: self._http.post(path), retry=False).json())

    def batch(self, name: str) -> dict[str, Any]:
        """How far a batch is."""
        result: dict[str, Any] = self._get(f"/v1/batches/{quote(name, safe='')}", {})
        return result

    def check(self, customer: str | None = None, count: int = 1, *, idempotency_key: str | None = None) -> list[Check]:
        """Which levels a customer's next documents get, for a queue of your own."""
        body = {"count": count} if customer is None else {"customer": customer, "count": count}
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        answer = self._request(lambda: self._http.post("/v1/checks", json=body, headers=headers))
        return [Check(**item) for item in answer.json()["checks"]]

    def _get(self, path: str, params: Mapping[str, Any]) -> Any:
        return self._request(lambda: self._http.get(path, params=dict(params))).json()

    def _request(self, send: Any, *, retry: bool = True) -> httpx2.Response:
        """The answer; a server that is busy, or did not answer, is asked again, later each time."""
        rest = 0.2
        for left in reversed(range(MAX_ATTEMPTS if retry else 1)):
            try:
                answer: httpx2.Response = send()
            except httpx2.TransportError as error:
                if not left:
                    raise RemoteError(f"the server did not answer: {error}; check its address") from error
                wanted = 0.0
            else:
                if answer.is_success:
                    return answer
                if answer.status_code not in RETRYABLE_STATUSES or not left:
                    raise _parse_error(answer)
                wanted = _parse_retry_after(answer.headers.get("retry-after"))
            time.sleep(min(MAX_RETRY_DELAY_SECONDS, max(rest, wanted)))
            rest *= 2
        raise AssertionError("the last try returns or raises")


def _parse_receipts(response: httpx2.Response) -> list[Receipt]:
    return [Receipt(**item) for item in response.json()["receipts"]]


def _parse_retry_after(text: str | None) -> float:
    """The Retry-After of an answer; a proxy's may be a date, which is no number."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else 0.0


def _parse_error(response: httpx2.Response) -> errors.InturnError:
    """The error that the server told, as the class that a library call would raise, where there is one."""
    try:
        reported = response.json()
        code, detail = str(reported["code"]), str(reported["detail"])
    except (ValueError, KeyError, TypeError):
        return RemoteError(f"the server answered {response.status_code}", response.status_code)
    ours = (var for var in vars(errors).values() if isinstance(var, type) and issubclass(var, errors.InturnError))
    kind = {our.code: our for our in ours}.get(code)
    return RemoteError(detail, response.status_code, code) if kind is None else kind(detail)

"""Serve `/v1/events`, a stream of server-sent events."""

from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from inturn.http.auth import AnyCaller, BearerToken, is_still_authorized
from inturn.http.errors import ErrorResponses
from inturn.http.sse import parse_last_event_id
from inturn.http.state import get_app_state

router: Final = APIRouter(prefix="/v1", tags=["live"])
EVENT_STREAM_MEDIA_TYPE: Final = "text/event-stream"
EVENT_EXAMPLE: Final = (
    "id: 17\nevent: finished\n"
    'data: {"number": 17, "at": 1700000000000000, "kind": "finished", "customer": "acme", "documents": ["018f…"],'
    ' "operator": null, "detail": {}}\n\n'
)


@router.get(
    "/events",
    operation_id="streamEvents",
    response_class=StreamingResponse,
    responses={
        **ErrorResponses.of(422),
        200: {
            "description": "Server-sent events, until the client disconnects.",
            "content": {EVENT_STREAM_MEDIA_TYPE: {"schema": {"type": "string"}, "example": EVENT_EXAMPLE}},
        },
    },
)
async def stream_events(
    request: Request,
    caller: AnyCaller,
    bearer: BearerToken,
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event received; the stream continues after it.")
    ] = None,
    after: Annotated[str | None, Query(description="The same, for clients that cannot send headers.")] = None,
) -> StreamingResponse:
    """Stream all events to operators, and those of its own documents to a customer.

    `reset` means that too many events were missed: load everything again, then continue.
    """
    broadcaster = get_app_state(request).broadcaster
    broadcaster.require_capacity()
    last_id = parse_last_event_id(last_event_id if last_event_id is not None else after)
    return StreamingResponse(
        broadcaster.stream(caller.customer, last_id, lambda: is_still_authorized(request, bearer, caller)),
        media_type=EVENT_STREAM_MEDIA_TYPE,
    )

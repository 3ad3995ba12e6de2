"""`/v1/events`: what happens, as it happens."""

from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from inturn.http.auth import Anyone, Bearer, is_welcome
from inturn.http.errors import Answers
from inturn.http.live import last_heard
from inturn.http.service import service_of

router: Final = APIRouter(prefix="/v1", tags=["live"])
STREAM: Final = "text/event-stream"
EXAMPLE: Final = (
    "id: 17\nevent: finished\n"
    'data: {"number": 17, "at": 1700000000000000, "kind": "finished", "customer": "acme", "documents": ["018f…"],'
    ' "operator": null, "detail": {}}\n\n'
)


@router.get(
    "/events",
    operation_id="streamEvents",
    response_class=StreamingResponse,
    responses={
        **Answers.of(422),
        200: {
            "description": "Server-sent events, until somebody hangs up.",
            "content": {STREAM: {"schema": {"type": "string"}, "example": EXAMPLE}},
        },
    },
)
async def events(
    request: Request,
    found: Anyone,
    given: Bearer,
    last_event_id: Annotated[str | None, Header(description="The id of the last event heard: go on behind it.")] = None,
    after: Annotated[str | None, Query(description="The same, for those who cannot send headers.")] = None,
) -> StreamingResponse:
    """Operators hear of everything, a customer of its own documents.

    `reset` means that too much was missed to be told one by one: look at everything anew, then go on.
    """
    hub = service_of(request).hub
    hub.check_room()
    heard = last_heard(last_event_id if last_event_id is not None else after)
    return StreamingResponse(
        hub.stream(found.customer, heard, lambda: is_welcome(request, given, found)), media_type=STREAM
    )

"""Serve `/v1/search`."""

from typing import Annotated, Final

from fastapi import APIRouter, Query

from inturn.http import schemas
from inturn.http.errors import ErrorResponses
from inturn.http.scope import ReadScope
from inturn.http.serializers import serialize_document
from inturn.queue_reader import MAX_SEARCH_LENGTH
from inturn.store_types import PartsChoice

MAX_MATCHES: Final = 100
router: Final = APIRouter(prefix="/v1", tags=["documents"])


@router.get("/search", operation_id="search", responses=ErrorResponses.of(422))
def search(
    scope: ReadScope,
    q: Annotated[
        str,
        Query(
            max_length=MAX_SEARCH_LENGTH,
            description="Beginnings of words of a name or of metadata, `key:value` of metadata, the beginning of an id"
            " or of a batch, part of a customer's name or of an error.",
            examples=["invoice:PL-2024-1812"],
        ),
    ] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_MATCHES, description="Matches of each kind.")] = 10,
    parts: Annotated[
        PartsChoice,
        Query(
            description="Whether parts of split documents are among the documents. With `exclude` one is found by its"
            " id alone."
        ),
    ] = PartsChoice.EXCLUDE,
) -> schemas.SearchResult:
    """Search documents, batches, customers and errors. Without a text nothing matches."""
    result = scope.search(q, limit, parts)
    return schemas.SearchResult.model_construct(
        documents=[serialize_document(document, scope.caller) for document in result.documents],
        batches=list(result.batches),
        customers=[
            schemas.CustomerMatch(customer=match.name, display_name=match.display_name) for match in result.customers
        ],
        errors=[schemas.ErrorMatch(**match._asdict()) for match in result.errors],
        is_complete=result.is_complete,
    )

"""Serve the results of a document's steps, and its parts."""

import json
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse

from inturn.errors import NotFoundError
from inturn.http import schemas
from inturn.http.errors import ErrorResponses
from inturn.http.routes.attachments import BYTES_RESPONSE, attachment_response
from inturn.http.routes.documents import DocumentId
from inturn.http.scope import CallerScope, ReadScope
from inturn.http.serializers import object_with_result, serialize_files, visible_error
from inturn.model import DocumentState
from inturn.store_types import PartResult, StepResult
from inturn.worker.step_results import own_files, read_stored_text

router: Final = APIRouter(prefix="/v1", tags=["documents"])
MAX_PARTS: Final = 1_000
Step = Annotated[int, Path(ge=0, le=2**31, description="The step's number, from 0.")]


@router.get(
    "/documents/{id}/results",
    operation_id="getDocumentStepResults",
    response_model=schemas.StepResults,
    responses=ErrorResponses.of(422),
)
def results(id: DocumentId, scope: ReadScope) -> Response:
    """Return the results of all steps that are done, in their order; a document without steps has one."""
    document = scope.document(id)
    steps = ",".join(_step_json(scope, step) for step in scope.app_state.queue.results(document.id))
    return Response(f'{{"id":{json.dumps(document.id)},"results":[{steps}]}}', media_type="application/json")


@router.get(
    "/documents/{id}/results/{step}/files/{name:path}",
    operation_id="getDocumentStepFile",
    response_class=StreamingResponse,
    responses={**ErrorResponses.of(422), **BYTES_RESPONSE},
)
def step_file(id: DocumentId, step: Step, name: str, scope: ReadScope) -> StreamingResponse:
    """Return a file of the result of one step."""
    document = scope.document(id)
    files = [
        file
        for result in scope.app_state.queue.results(document.id)
        if result.step == step
        for file in own_files(result.files)
    ]
    file = next((file for file in files if file.name == name), None)
    if file is None:
        raise NotFoundError("the result of this step has no such file")
    return attachment_response(scope, file.blob, file.name, file.size)


@router.get(
    "/documents/{id}/parts",
    operation_id="listDocumentParts",
    response_model=schemas.Parts,
    responses=ErrorResponses.of(422),
)
def parts(
    id: DocumentId,
    scope: ReadScope,
    *,
    limit: Annotated[int, Query(ge=1, le=MAX_PARTS)] = 100,
    after: Annotated[
        int, Query(ge=0, le=2**31, description="Only parts with a higher number: the `next` of the page before.")
    ] = 0,
) -> Response:
    """Return the parts of a document by number, with what became of each; all parts are counted by state."""
    document = scope.document(id)
    page = scope.app_state.queue.parts(document.id, limit=limit + 1, after=after)
    states = scope.part_counts(document).states
    counts_by_state = {str(state): states.get(state, 0) for state in DocumentState}
    head = {
        "id": document.id,
        "documents": sum(counts_by_state.values()),
        "states": counts_by_state,
        "next": page[limit - 1].part if len(page) > limit else None,
    }
    listed = ",".join(_part_json(scope, part) for part in page[:limit])
    text = json.dumps(head, separators=(",", ":"))
    return Response(f'{text[:-1]},"parts":[{listed}]}}', media_type="application/json")


def _step_json(scope: CallerScope, result: StepResult) -> str:
    text = read_stored_text(result.result, result.files, scope.app_state.blobs)
    files = serialize_files(result.files)
    envelope = schemas.StepResult(step=result.step, queue=result.queue, result=None, files=files)
    return object_with_result(envelope.model_dump(mode="json"), text)


def _part_json(scope: CallerScope, part: PartResult) -> str:
    text = read_stored_text(part.result, part.files, scope.app_state.blobs)
    envelope = schemas.PartResult.model_construct(
        id=part.id,
        part=part.part,
        name=part.name,
        state=str(part.state),
        error=visible_error(part.error, scope.caller),
        files=serialize_files(part.files),
        result=None,
    )
    return object_with_result(envelope.model_dump(mode="json"), text)

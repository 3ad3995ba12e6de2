"""Serve the results of a document's steps, and its parts."""

import json
from collections.abc import Sequence
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
from inturn.model import DocumentState, ResultFile
from inturn.store_types import PartResult, StepResult
from inturn.worker.content import RESULT_FILE

router: Final = APIRouter(prefix="/v1", tags=["documents"])
MAX_PARTS: Final = 1_000
MAX_PAGE_BYTES: Final = 16 * 1024 * 1024
"""About how large the results in a page of parts become together."""
PARTS_PER_READ: Final = 50
"""Parts that are read together: a result in a row has up to 256 KiB."""
Step = Annotated[int, Path(ge=0, le=2**31, description="The step's number, from 0.")]


@router.get(
    "/documents/{id}/results",
    operation_id="getDocumentStepResults",
    response_model=schemas.StepResults,
    responses=ErrorResponses.of(422),
)
def results(id: DocumentId, scope: ReadScope) -> Response:
    """Return the results of all steps that are done, in their order; a document without steps has one.

    A result of more than 256 KiB is null here, with a `result_file` to download.
    """
    document = scope.document(id)
    steps = ",".join(map(_step_json, scope.app_state.queue.results(document.id)))
    return Response(f'{{"id":{json.dumps(document.id)},"results":[{steps}]}}', media_type="application/json")


@router.get(
    "/documents/{id}/results/{step}/files/{name:path}",
    operation_id="getDocumentStepFile",
    response_class=StreamingResponse,
    responses={**ErrorResponses.of(422), **BYTES_RESPONSE},
)
def step_file(id: DocumentId, step: Step, name: str, scope: ReadScope) -> StreamingResponse:
    """Return a file of the result of one step; `result.json` is a result that is too large for the list."""
    document = scope.document(id)
    files = [
        file for result in scope.app_state.queue.results(document.id) if result.step == step for file in result.files
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
    """Return the parts of a document by number, with what became of each; all parts are counted by state.

    A page ends early once it has about 16 MB of results. A result of more than 256 KiB is null here, with a
    `result_file`.
    """
    document = scope.document(id)
    page, next_ = _read_page(scope, document.id, limit, after)
    states = scope.part_counts(document).states
    counts_by_state = {str(state): states.get(state, 0) for state in DocumentState}
    head = {
        "id": document.id,
        "documents": sum(counts_by_state.values()),
        "states": counts_by_state,
        "next": next_,
    }
    listed = ",".join(_part_json(scope, part) for part in page)
    text = json.dumps(head, separators=(",", ":"))
    return Response(f'{text[:-1]},"parts":[{listed}]}}', media_type="application/json")


def _read_page(scope: CallerScope, id_: str, limit: int, after: int) -> tuple[list[PartResult], int | None]:
    """Read up to `limit` parts, and at least one, with up to MAX_PAGE_BYTES of results; return also the next cursor."""
    page: list[PartResult] = []
    size, last = 0, after
    while True:
        count = min(PARTS_PER_READ, limit + 1 - len(page))
        parts = scope.app_state.queue.parts(id_, limit=count, after=last)
        for part in parts:
            size += len(part.result or "")
            if len(page) == limit or (page and size > MAX_PAGE_BYTES):
                return page, last
            page.append(part)
            last = part.part
        if len(parts) < count:
            return page, None


def _result_file(files: Sequence[ResultFile]) -> schemas.ResultFile | None:
    """Return the file of a result that is too large for its row."""
    file = next((file for file in files if file.name == RESULT_FILE), None)
    if file is None:
        return None
    return schemas.ResultFile(name=file.name, size=file.size, sha256=file.sha256, media_type=file.media_type)


def _step_json(result: StepResult) -> str:
    result_file, files = _result_file(result.files), serialize_files(result.files)
    envelope = schemas.StepResult(
        step=result.step, queue=result.queue, result=None, result_file=result_file, files=files
    )
    text = (result.result or "null") if result_file is None else "null"
    return object_with_result(envelope.model_dump(mode="json"), text)


def _part_json(scope: CallerScope, part: PartResult) -> str:
    result_file = _result_file(part.files)
    envelope = schemas.PartResult.model_construct(
        id=part.id,
        part=part.part,
        name=part.name,
        state=str(part.state),
        error=visible_error(part.error, scope.caller),
        files=serialize_files(part.files),
        result=None,
        result_file=result_file,
    )
    text = (part.result or "null") if result_file is None else "null"
    return object_with_result(envelope.model_dump(mode="json"), text)

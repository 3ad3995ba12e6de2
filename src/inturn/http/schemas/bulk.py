"""Define the models of actions on many documents."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Id, InputTime, Name, QueueName, State, StrictModel
from inturn.store_types import PartsChoice

Ids = Annotated[list[Id], Field(min_length=1, max_length=1_000)]


class BulkExpedite(StrictModel):
    """The documents to move to the front, or back to their places with `undo`."""

    ids: Ids
    undo: bool = False


class BulkFilter(StrictModel):
    """The documents to act on: either `ids`, or at least one condition. All conditions given must hold."""

    ids: Ids | None = None
    state: Annotated[list[State], Field(min_length=1)] | None = None
    customer: Name | None = None
    level: Annotated[int, Field(ge=1, le=9)] | None = None
    batch: Name | None = None
    group: Name | None = None
    queue: QueueName | None = None
    parent: Id | None = Field(None, description="Only the parts of this document.")
    parts: PartsChoice | None = Field(
        None,
        description="Whether parts of split documents are among them. Left out: `exclude`, or `include` if `queue` or"
        " `parent` is given.",
    )
    text: Name | None = None
    since: InputTime | None = Field(None, description="Only from this time on.")
    until: InputTime | None = Field(None, description="Only before this time.")
    time: Literal["submitted", "ended"] | None = Field(
        None,
        description="The time that `since` and `until` are about. Left out: `submitted` to cancel, `ended` to retry.",
    )
    dry_run: bool = Field(default=False, description="Only count. Left out: false.")


class BulkRetry(BulkFilter):
    """The documents to retry: either `ids`, or at least one condition. All conditions given must hold."""

    from_start: bool = Field(
        default=False,
        description="Begin with the first step, without the results and parts of earlier ones. Left out: false.",
    )


class BulkResult(BaseModel):
    """The number of documents changed, or with `dry_run` the number that would be."""

    documents: int
    done: bool

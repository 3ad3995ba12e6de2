"""Define the models of queues, of their forms, and of documents that people take from them."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from inturn.forms import MAX_FIELDS, MAX_HELP_LENGTH, MAX_LABEL_LENGTH, MAX_OPTIONS, FieldKind
from inturn.http.schemas.common import Name, Paused, QueueName, Rate, StrictModel, Time
from inturn.http.schemas.documents import Document
from inturn.validation import MAX_ERROR_LENGTH

FenceNumber = Annotated[int, Field(ge=0, le=2**62, strict=True, description="The one that `take` returned.")]


class Queue(BaseModel):
    """Whether all queues are paused."""

    paused: Paused | None


class FormField(BaseModel):
    """A field of a form."""

    name: str = Field(description="Its name in the answer.", examples=["total"])
    label: str
    kind: FieldKind
    options: list[str] = Field(description="What a choice is between; empty for other kinds.")
    required: bool
    help: str | None


class FormFieldSpec(StrictModel):
    """A field to add to a form."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$", examples=["total"])]
    label: Annotated[str, Field(min_length=1, max_length=MAX_LABEL_LENGTH)] | None = Field(
        None, description="Left out: its name."
    )
    kind: FieldKind = Field(FieldKind.TEXT, description="Left out: text.")
    options: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_LABEL_LENGTH)]], Field(max_length=MAX_OPTIONS)
    ] = Field(default_factory=list, description="What a choice is between; other kinds have none.")
    required: Annotated[bool, Field(strict=True)] = Field(default=False, description="Left out: false.")
    help: Annotated[str, Field(min_length=1, max_length=MAX_HELP_LENGTH)] | None = None


class NamedQueue(BaseModel):
    """A queue of the store."""

    name: str = Field(examples=["ocr"])
    description: str | None
    weight: float = Field(description="How often it is served, compared with other queues of the same worker.")
    cap: int | None = Field(description="At most so many of its documents run at once, of all customers.")
    rate: Rate | None = Field(description="At most so many of its documents start in a span, of all customers.")
    manual: bool = Field(description="Whether people serve it: operators take its documents by hand.")
    form: list[FormField] | None = Field(description="What a person fills in; null: any JSON value.")
    paused: Paused | None = Field(description="Its own pause; that of all queues is `/v1/queue`.")
    waiting: int
    running: int


class Queues(BaseModel):
    """All queues, in the order in which they were made."""

    queues: list[NamedQueue]


class QueueChange(StrictModel):
    """The settings to change. Fields left out stay as they are; null removes a description, a limit or a form."""

    description: Name | None = None
    weight: Annotated[float, Field(ge=0.001, le=1_000)] = 1.0
    cap: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = Field(
        None, description="At most so many of its documents run at once, of all customers."
    )
    rate: Rate | None = Field(None, description="At most so many of its documents start in a span, of all customers.")
    manual: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="Whether people serve it: operators take its documents by hand."
    )
    form: Annotated[list[FormFieldSpec], Field(min_length=1, max_length=MAX_FIELDS)] | None = Field(
        None, description="What a person fills in; null: any JSON value."
    )


class QueuedDocument(BaseModel):
    """A document that waits in a queue."""

    document: Document
    place: int | None = Field(
        description="Documents that would be taken before it; null while a pause or a limit of its customer holds it."
    )


class TakenDocument(BaseModel):
    """A document that a person or a worker has taken from a queue."""

    document: Document
    worker: str = Field(description="`person:` and a name, if a person has it.", examples=["person:anna"])
    lease_until: Time = Field(description="It goes back into the queue then, unless it is extended.")
    fence: int | None = Field(description="What its next request must name; null unless it is yours.")


class QueueDocuments(BaseModel):
    """What waits in a queue, in its order, and what is taken."""

    queue: NamedQueue
    waiting: list[QueuedDocument] = Field(description="The first that wait, in the order in which they would be taken.")
    taken: list[TakenDocument] = Field(description="The newest first.")


class Taken(BaseModel):
    """The document that was taken. Null if none could be: while some wait, a pause or a limit holds them."""

    taken: TakenDocument | None
    waiting: int = Field(description="Documents that wait in the queue now.")
    form: list[FormField] | None = Field(description="What its result must have; null: any JSON value.")


class Fence(StrictModel):
    """The fence of a taken document."""

    fence: FenceNumber


class Finish(StrictModel):
    """The result of a document that was taken."""

    fence: FenceNumber
    result: Any = Field(None, description="What the form of its queue asks for, or any JSON value. Left out: null.")
    next: QueueName | None = Field(None, description="The queue that it goes to. Left out: the next of its steps.")


class Rejection(StrictModel):
    """The reason why a taken document fails for good."""

    fence: FenceNumber
    reason: Annotated[str, Field(min_length=1, max_length=MAX_ERROR_LENGTH, examples=["it is not an invoice"])]

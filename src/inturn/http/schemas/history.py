"""Define the models of the history."""

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Time

Numbers = list[int | None]


class HistoryFigures(BaseModel):
    """One column for each figure, with a value for each step; null where nothing is known."""

    submitted: Numbers = Field(description="Documents submitted; parts of documents are counted in `parts`.")
    started: Numbers = Field(description="Starts of documents and parts, in each of their steps.")
    done: Numbers = Field(description="Documents and parts that ended with a result.")
    failed: Numbers
    cancelled: Numbers
    expired: Numbers
    steps: Numbers = Field(description="Steps that ended, after which a document went to another queue or was split.")
    parts: Numbers = Field(description="Parts that documents were split into.")
    waiting: Numbers = Field(
        description="Documents and parts that waited at the end of the step; a split document does not."
    )
    running: Numbers = Field(description="Documents that ran at the end of the step.")
    wait_p50: Numbers = Field(description="Median wait of the documents started, within 9 %.")
    wait_p95: Numbers = Field(description="The wait that 95 % of the documents started did not exceed, within 9 %.")
    worked: Numbers = Field(description="Processing time of the attempts that ended.")


class HistorySeries(HistoryFigures):
    """The figures of one queue, level or customer."""

    queue: str | None = Field(description="With by=queue; null for the sum of the queues not shown.")
    level: int | None = Field(description="With by=level; level 0 holds expedited documents.")
    customer: str | None = Field(description="With by=customer; null for the sum of the customers not shown.")


class QueueHistory(BaseModel):
    """What happened in the queues, in equal steps of time."""

    by: str
    step: int = Field(description="The length of a step.")
    began_at: Time | None = Field(description="Nothing before is known; null while there is no history.")
    known_until: Time | None = Field(description="Everything that happened before this time is counted.")
    at: list[Time] = Field(description="The beginning of each step.")
    total: HistoryFigures = Field(description="Of all queues, or of the queue or the customer asked for.")
    series: list[HistorySeries]

-- Earlier attempts at documents, by the id of the document, which a retry by hand does not change, and by their fence.
-- Written when an attempt ends without ending its document, and by a retry by hand, always under the document's lock.
-- The customer comes first: a purge finds its rows once the documents are gone and nobody can add any more.

CREATE TABLE attempt (
    customer bigint NOT NULL,
    document uuid NOT NULL,
    fence bigint NOT NULL,
    started_at bigint NOT NULL,
    ended_at bigint NOT NULL,
    number int NOT NULL,
    ended text NOT NULL,
    error text,
    worker text,
    PRIMARY KEY (customer, document, fence)
);

-- What was done by hand to one customer, newest first.
CREATE INDEX event_by_hand_of ON event (customer, number) WHERE operator IS NOT NULL;

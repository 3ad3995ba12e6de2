-- Earlier attempts at documents, by the id of the document, which a retry by hand does not change, and by their fence.
-- Written when an attempt ends without ending its document, and by a retry by hand. The customer comes first: a purge
-- finds its rows without the documents.

CREATE TABLE attempt (
    customer INTEGER NOT NULL,
    document BLOB NOT NULL,
    fence INTEGER NOT NULL,
    number INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    ended TEXT NOT NULL,
    error TEXT,
    worker TEXT,
    PRIMARY KEY (customer, document, fence)
) STRICT;

-- What was done by hand to one customer, newest first.
CREATE INDEX event_by_hand_of ON event (customer, number) WHERE operator IS NOT NULL;

-- Where the documents of a line are looked for: from its `front` on, by the index of all documents of the line, and
-- among those that came back into it. A document that comes in needs no entry of its own for that, and a claim takes
-- none away.
--
--   line.front   no document of the line before this seq waits, but for those that came back; null: no other at all.
--                Moved on by claims alone
--   returned     the documents that came back into a line: handed back, due again, lost by their worker, expedited.
--                They wait by their seq, as all do, but the front may have passed it. Written with their document's state
--
-- `line_change.n` says by how many documents a line gets longer, whatever the kind, wherever `level` is given: so that the
-- length of a line can be told before changes are folded in.

CREATE TABLE returned (
    customer INTEGER NOT NULL,
    line INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    cost REAL NOT NULL,
    PRIMARY KEY (customer, line, seq)
) STRICT, WITHOUT ROWID;

INSERT INTO returned (customer, line, seq, ready_at, cost)
SELECT customer, line, seq, ready_at, cost FROM document WHERE state = 'waiting';

ALTER TABLE line ADD COLUMN front INTEGER;

CREATE INDEX document_line ON document (customer, line);
DROP INDEX document_customer;
DROP INDEX document_waiting;

DELETE FROM line_change WHERE EXISTS (
    SELECT 1 FROM line_change AS later
    WHERE later.kind = 'emptied' AND later.customer = line_change.customer AND later.level = line_change.level
        AND later.number > line_change.number
);
UPDATE line_change SET n = CASE kind
    WHEN 'left' THEN -1
    ELSE -coalesce((SELECT waiting FROM line WHERE line.customer = line_change.customer AND line.level = line_change.level), 0)
END
WHERE kind IN ('left', 'emptied');
UPDATE line_change SET kind = 'returned' WHERE kind = 'joined';

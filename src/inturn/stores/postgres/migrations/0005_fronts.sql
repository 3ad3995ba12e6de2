-- Where the documents of a line are looked for: from its `front` on, by the index of all documents of the line, and
-- among those that came back into it. A document that comes in needs no row of its own for that, and a claim takes none
-- away.
--
--   line.front   no document of the line before this seq waits, but for those that came back; null: no other at all.
--                Moved on by claims alone
--   returned     the documents that came back into a line: handed back, due again, lost by their worker, expedited.
--                They wait by their seq, as all do, but the front may have passed it. Once all that waited stood here
--
-- `line_change.n` says by how many documents a line gets longer, whatever the kind, wherever `level` is given: so that the
-- length of a line can be told before changes are folded in.

ALTER TABLE waiting RENAME TO returned;
ALTER INDEX waiting_pkey RENAME TO returned_pkey;
ALTER TABLE line ADD COLUMN front bigint;

CREATE INDEX document_line ON document (customer, line, seq);
DROP INDEX document_customer;

DELETE FROM line_change USING line_change AS later
WHERE later.kind = 'emptied' AND later.customer = line_change.customer AND later.level = line_change.level
    AND later.number > line_change.number;
UPDATE line_change SET n = CASE kind
    WHEN 'left' THEN -1
    ELSE -coalesce((SELECT waiting FROM line WHERE line.customer = line_change.customer AND line.level = line_change.level), 0)
END
WHERE kind IN ('left', 'emptied');
UPDATE line_change SET kind = 'returned' WHERE kind = 'joined';

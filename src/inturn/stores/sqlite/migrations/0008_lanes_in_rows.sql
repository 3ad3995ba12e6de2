-- Every lane's own row says all there is to say of it. What 0005 kept in the queue's row moves there, and `queue.unsaved` goes:
-- a process that remembers lanes compares `queue.version` inside its own transaction, and nothing else vouches for it.
-- A process of the version before is refused at its next claim: it asks for that column.
--
--   line.out_of_turn_at   when the overdue slot last started a document of the lane ahead of its turn; 0: never

INSERT OR REPLACE INTO line (
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, place, tie
)
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
    json_extract(value, '$[4]'), json_extract(value, '$[5]'), json_extract(value, '$[6]'), json_extract(value, '$[7]'),
    json_extract(value, '$[8]'), json_extract(value, '$[9]'), json_extract(value, '$[10]'),
    CASE queue.ordered WHEN 'fair' THEN json_extract(value, '$[3]') ELSE json_extract(value, '$[6]') END,
    CASE queue.ordered WHEN 'fair' THEN json_extract(value, '$[4]') ELSE 0 END
FROM queue CROSS JOIN json_each(queue.unsaved);

DROP VIEW line_length;
ALTER TABLE queue DROP COLUMN unsaved;
ALTER TABLE line ADD COLUMN out_of_turn_at INTEGER NOT NULL DEFAULT 0;

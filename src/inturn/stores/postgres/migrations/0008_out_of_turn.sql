-- A lane is started out of turn at most once in a tenth of `overdue_after`.
--
--   line.out_of_turn_at   when the overdue slot last started a document of the lane ahead of its turn; 0: never
--
-- `line_change` knows a kind more, "released": a claim given back unstarted, whose lane is refunded. A process of the version
-- before does not know it. So `turns.bounds` is called `deadlines` now, for which that process does not ask: its next claim is
-- refused, and all else that it does goes on.

ALTER TABLE line ADD COLUMN out_of_turn_at bigint NOT NULL DEFAULT 0;
ALTER TABLE turns RENAME COLUMN bounds TO deadlines;

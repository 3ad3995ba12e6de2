-- What tells a lease or a delay that a clock ahead of this one has set, and the last maintenance round.
--
--   document.leased_at   when the lease was given or last renewed, by the clock that ruled then
--   document.delayed_at  when the delay began
--   document.doubted_at  when a sweep first found the lease or delay to begin in the future (`inturn.policy.clock_skew`)
--   queue.maintenance    JSON: the last maintenance round that might delete, and the last that was refused since
--
-- No index holds leased_at or doubted_at, so that heartbeats stay on their page (HOT). A process of an older version
-- sets none of them. A time of an earlier lease that it leaves here lies in the past, so that its own lease is not doubted.

ALTER TABLE document ADD COLUMN leased_at bigint, ADD COLUMN delayed_at bigint, ADD COLUMN doubted_at bigint;
ALTER TABLE queue ADD COLUMN maintenance text;

UPDATE document SET leased_at = started_at WHERE state = 'running';
UPDATE document SET delayed_at = coalesce(started_at, submitted_at) WHERE due_at IS NOT NULL;

CREATE INDEX document_delayed ON document (delayed_at) WHERE due_at IS NOT NULL;

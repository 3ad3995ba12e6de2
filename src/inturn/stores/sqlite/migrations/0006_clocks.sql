-- What tells a lease or a delay that a clock ahead of this one has set, and the last maintenance round.
--
--   document.leased_at   when the lease was given or last renewed, by the clock of whoever did so
--   document.delayed_at  when the delay began
--   document.doubted_at  when a sweep first found the lease or delay to begin in the future (`inturn.policy.clock_skew`)
--   queue.maintenance    JSON: the last maintenance round that might delete, and the last that was refused since
--
-- A process of an older version sets none of them. A time of an earlier lease that it leaves here lies in the past, so
-- that its own lease is not doubted.

ALTER TABLE document ADD COLUMN leased_at INTEGER;
ALTER TABLE document ADD COLUMN delayed_at INTEGER;
ALTER TABLE document ADD COLUMN doubted_at INTEGER;
ALTER TABLE queue ADD COLUMN maintenance TEXT;

UPDATE document SET leased_at = started_at WHERE state = 'running';
UPDATE document SET delayed_at = coalesce(started_at, submitted_at) WHERE state = 'delayed';

CREATE INDEX document_delayed ON document (delayed_at) WHERE state = 'delayed';

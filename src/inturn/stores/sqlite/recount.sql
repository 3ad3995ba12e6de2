-- Counts of documents, which a recount compares with those of lanes and limits.

-- name: waiting_counts
SELECT document.customer, document.lane, count(*), min(seq) FROM document WHERE state = 'waiting' GROUP BY 1, 2;

-- name: reachable_counts
SELECT customer, lane, count(*) FROM (
    SELECT document.customer, document.lane, seq
    FROM document JOIN lane ON lane.customer = document.customer AND lane.level = document.lane
    WHERE state = 'waiting' AND seq >= scan_from
    UNION
    SELECT document.customer, document.lane, seq
    FROM document JOIN lane_group
        ON lane_group.customer = document.customer AND lane_group.level = document.lane % 1000
            AND lane_group.number = document.lane / 1000
    WHERE state = 'waiting' AND seq >= scan_from
    UNION
    SELECT customer, lane, seq FROM requeued
)
GROUP BY 1, 2;

-- name: capped_counts
SELECT limits.customer, limits.running,
    (SELECT count(*) FROM document INDEXED BY document_clock
     WHERE state = 'running' AND state <> 'waiting' AND +document.customer = limits.customer)
FROM limits JOIN customer ON customer.id = limits.customer WHERE customer.capped = 1;

-- name: in_flight_counts
SELECT customer, queue, sum(stored), sum(counted) FROM (
    SELECT customer, queue, in_flight AS stored, 0 AS counted FROM queue_work
    UNION ALL
    SELECT customer, lane % 1000 / 10, 0, 1 FROM document INDEXED BY document_clock
    WHERE state = 'running' AND state <> 'waiting' AND charged IS NOT NULL
)
GROUP BY customer, queue HAVING sum(stored) <> sum(counted);

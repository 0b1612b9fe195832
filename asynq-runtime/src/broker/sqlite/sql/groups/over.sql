-- Sets and receipts whose time has passed, the oldest first. ?1 q, ?2 now, ?3 how many. Rows: set, 1 if it is a receipt.
SELECT batch, ended FROM main.batch AS s INDEXED BY batch_deadline
WHERE s.q = ?1 AND s.deadline <= ?2 ORDER BY s.deadline LIMIT ?3

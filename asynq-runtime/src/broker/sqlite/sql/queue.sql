-- The numbers that stand for names of queues.

-- name: find
-- The number of a queue. ?1 name. Row: q.
SELECT q FROM main.queue WHERE name = ?1;

-- name: add
-- Makes a queue known. ?1 name. No row; the rowid is its number.
INSERT INTO main.queue(name) VALUES (?1);

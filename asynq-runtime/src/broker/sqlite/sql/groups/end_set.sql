-- Leaves a receipt of a set that was finished. ?1 set, ?2 until when it is kept.
UPDATE main.batch SET ended = 1, deadline = ?2 WHERE batch = ?1

-- A set that is open, or the receipt of a set that was finished. ?1 set, ?2 id. Row: q, 1 if it was finished.
SELECT q, ended FROM main.batch WHERE batch = ?1 AND id = ?2

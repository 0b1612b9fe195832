-- Whether a tick has a marker. ?1 queue, ?2 entry, ?3 the tick, ?4 now. A row if it has.
SELECT 1 FROM main.tick WHERE queue = ?1 AND entry = ?2 AND at = ?3 AND until > ?4

-- The holder of a unique lock that a task cannot take, as lock/take has it. ?1 q, ?2 key, ?3 id, ?4 now.
-- Row: id; none otherwise, nor where the id of the task itself is taken, which is another refusal.
SELECT held.id FROM main.ulock AS held
WHERE held.q = ?1 AND held.key = ?2 AND held.id <> ?3 AND held.until > ?4
  AND EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = ?1 AND t.id = held.id)
  AND NOT EXISTS (SELECT 1 FROM main.task AS t WHERE t.q = ?1 AND t.id = ?3)

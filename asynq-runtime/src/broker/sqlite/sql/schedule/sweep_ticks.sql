-- Removes markers whose time is over. ?1 now, ?2 how many.
DELETE FROM main.tick WHERE (queue, entry, at) IN (
  SELECT queue, entry, at FROM main.tick WHERE until <= ?1 ORDER BY until LIMIT ?2)

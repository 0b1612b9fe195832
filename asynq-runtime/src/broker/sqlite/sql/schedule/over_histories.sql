-- Histories whose time has passed. ?1 now, ?2 how many. Rows: entry.
SELECT entry FROM main.history WHERE until <= ?1 LIMIT ?2

-- Removes leads that no scheduler has and none wants. ?1 now.
DELETE FROM main.lead WHERE until <= ?1 AND wanted_until <= ?1

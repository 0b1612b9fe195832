-- Takes away leads that nobody has and nobody wants. ?1 now.
DELETE FROM main.lead WHERE until <= ?1 AND wanted_until <= ?1

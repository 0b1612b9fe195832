-- The newest request so far. Row: n.
SELECT coalesce((SELECT max(n) FROM main.signal), 0)

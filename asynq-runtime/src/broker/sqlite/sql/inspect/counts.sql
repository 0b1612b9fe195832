-- Tasks per state. ?1 q. Rows: state, n.
SELECT state, n FROM main.tally WHERE q = ?1

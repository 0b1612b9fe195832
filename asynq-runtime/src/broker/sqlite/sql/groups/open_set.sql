-- Begins a set; the rowid is its number. ?1 q, ?2 group, ?3 deadline, ?4 id.
INSERT INTO main.batch(q, grp, deadline, id) VALUES (?1, ?2, ?3, ?4)

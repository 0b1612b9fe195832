-- Shows an entry of a scheduler. ?1 scheduler, ?2 its place, ?3 info, ?4 until.
INSERT INTO main.shown(scheduler, n, info, until) VALUES (?1, ?2, ?3, ?4)

-- Shows how far a run is. ?1 seq, ?2 fraction, ?3 note.
UPDATE main.task SET progress = ?2, progress_note = ?3 WHERE seq = ?1

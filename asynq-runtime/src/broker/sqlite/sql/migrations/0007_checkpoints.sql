-- Version 1006: what a run keeps of its work for the next run of its task. It goes with the body.
ALTER TABLE main.body ADD COLUMN checkpoint BLOB;

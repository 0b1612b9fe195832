-- Version 1006: the checkpoint that a run keeps for the next run of its task. It goes with the body.
ALTER TABLE main.body ADD COLUMN checkpoint BLOB;

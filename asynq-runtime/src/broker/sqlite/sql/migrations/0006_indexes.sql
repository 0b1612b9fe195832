-- Version 1005: indexes that statements use. No statement used `task_due`, and each task wrote it. `task_lease` keeps its
-- name, by which older programs ask for it, and now finds the tasks that a server runs; ends of leases are in `task_at`.
DROP INDEX main.task_due;
DROP INDEX main.task_lease;
CREATE INDEX main.task_lease ON [task](server) WHERE state = 1;

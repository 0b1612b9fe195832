-- Frees the unique lock of a task that begins to run and is unique until then, if the run still holds the task and the task the
-- lock. docs/design/fence.md#unique-locks lists every place that frees a lock.
-- KEYS     1 task hash · 2 the lock
-- ARGV     1 run token · 2 id
-- Returns  o freed, or not its own · f fenced · g gone
local letter = held_by(KEYS[1], ARGV[1])
if letter == 'o' and peek('GET', KEYS[2]) == ARGV[2] then redis.call('DEL', KEYS[2]) end
return letter

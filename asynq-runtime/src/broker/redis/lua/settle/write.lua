-- Writes one field of a running task, if the run still holds the task.
-- KEYS     1 task hash
-- ARGV     1 run token · 2 field · 3 value
-- Returns  o written · f fenced · g gone
local letter = held_by(KEYS[1], ARGV[1])
if letter == 'o' then redis.call('HSET', KEYS[1], ARGV[2], ARGV[3]) end
return letter

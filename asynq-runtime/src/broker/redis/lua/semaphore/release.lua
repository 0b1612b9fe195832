-- Takes a token back, unless a later attempt at the task has it until another time.
-- KEYS     1 asynq:sema:SCOPE
-- ARGV     1 until when the attempt has the token, Unix seconds · 2 id of the task
-- Returns  1 if it had one, else 0
local held = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not held or tonumber(held) ~= tonumber(ARGV[1]) then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[2])

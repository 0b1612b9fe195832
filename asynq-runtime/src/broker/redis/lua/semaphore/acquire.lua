-- Gives a task a token if one is left, as asynq's x/rate does.
-- KEYS     1 asynq:sema:SCOPE
-- ARGV     1 now · 2 how many there are · 3 until when, Unix seconds · 4 id of the task · 5 1 if this attempt has a token, else 0
--          · 6 seconds that the attempt has left · 7 seconds by which its end may differ though the clocks agree
-- Returns  until when the task has a token, Unix seconds, or 0 if none is left
local now_s = clock(ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', whole(now_s - 1))
local held, own = redis.call('ZCARD', KEYS[1]), redis.call('ZSCORE', KEYS[1], ARGV[4])
-- Where this attempt has none, the token is that of an earlier attempt at this task, which is over: it keeps out no attempt.
if own and ARGV[5] == '0' then held = held - 1 end
if held >= tonumber(ARGV[2]) then return 0 end
-- A clock that is ahead of the one that gave the end would end the token before the attempt, or has passed that end already.
local until_s, end_s = tonumber(ARGV[3]), now_s + tonumber(ARGV[6])
if end_s > until_s + tonumber(ARGV[7]) then until_s = end_s end
redis.call('ZADD', KEYS[1], whole(until_s), ARGV[4])
return until_s

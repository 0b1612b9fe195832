-- Puts the name of a server or scheduler on a list of live ones, and takes off the dead ones.
-- KEYS     1 asynq:servers, asynq:workers or asynq:schedulers
-- ARGV     1 now · 2 seconds the name counts · 3 member
-- Returns  how many are on the list then
local now_s = clock(ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', whole(now_s - 1))
redis.call('ZADD', KEYS[1], whole(now_s + tonumber(ARGV[2])), ARGV[3])
return redis.call('ZCARD', KEYS[1])

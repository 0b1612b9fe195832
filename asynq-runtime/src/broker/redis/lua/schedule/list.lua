-- Names the entry lists of the schedulers that live, and forgets the dead ones, as Go's readers do.
-- KEYS     1 asynq:schedulers
-- ARGV     1 now
-- Returns  the members, which are full key names
local now_s = clock(ARGV[1])
local names = redis.call('ZRANGEBYSCORE', KEYS[1], whole(now_s), '+inf')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', whole(now_s - 1))
return names

-- Names of the servers that have been heard of.
-- KEYS     1 asynq:servers
-- ARGV     1 now
-- Returns  the members, which are full key names
return redis.call('ZRANGEBYSCORE', KEYS[1], whole((clock(ARGV[1]))), '+inf')

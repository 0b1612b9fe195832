-- Lists the servers or schedulers that live, each with the end of its listing by the writer's clock.
-- KEYS     1 asynq:servers or asynq:schedulers
-- ARGV     1 now
-- Returns  member, which is a full key name, and score in turn
return redis.call('ZRANGEBYSCORE', KEYS[1], whole((clock(ARGV[1]))), '+inf', 'WITHSCORES')

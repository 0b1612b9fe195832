-- Adds an event to the history of an entry and keeps the newest 1,000.
-- KEYS     1 asynq:scheduler_history:ENTRY
-- ARGV     1 Unix seconds of the enqueue · 2 the event · 3 seconds the history is kept
-- Returns  nothing
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1000)
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])

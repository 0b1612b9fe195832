-- Pauses a queue, which an operator may do because memory is full.
-- KEYS     1 paused
-- ARGV     1 now in seconds
-- Returns  1 if that changed anything, else 0
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
-- This call removes nothing; as the first write it lets the script run when memory is full.
redis.call('ZREM', KEYS[1], '')
redis.call('SET', KEYS[1], ARGV[1])
return 1

-- Pauses a queue, which an operator may do because memory is full.
-- KEYS     1 paused · 2 x:absent
-- ARGV     1 now in seconds
-- Returns  1 if that changed anything, else 0
local call = redis.call
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')
return call('SET', KEYS[1], ARGV[1], 'NX') and 1 or 0

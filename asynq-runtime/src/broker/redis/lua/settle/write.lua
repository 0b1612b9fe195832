-- Writes one field of a running task, if the run is still its holder's.
-- KEYS     1 task hash
-- ARGV     1 run token · 2 field · 3 value
-- Returns  o written · f fenced · g gone
local found = redis.call('HMGET', KEYS[1], 'pending_since', 'state')
if found[1] == ARGV[1] and found[2] == 'active' then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
  return 'o'
end
if redis.call('EXISTS', KEYS[1]) == 0 then return 'g' end
return 'f'

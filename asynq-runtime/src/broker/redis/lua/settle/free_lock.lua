-- Frees the unique lock of a task that begins to run and is unique until then, if the run is still its holder's and the lock the task's.
-- Other locks are freed by settle.lua.
-- KEYS     1 task hash · 2 the lock
-- ARGV     1 run token · 2 id
-- Returns  o freed, or not its own · f fenced · g gone
local found = redis.call('HMGET', KEYS[1], 'pending_since', 'state')
if found[1] == ARGV[1] and found[2] == 'active' then
  if redis.pcall('GET', KEYS[2]) == ARGV[2] then redis.call('DEL', KEYS[2]) end
  return 'o'
end
if redis.call('EXISTS', KEYS[1]) == 0 then return 'g' end
return 'f'

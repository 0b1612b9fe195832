-- Deletes one slice of the completed tasks whose retention has passed.
-- KEYS     1 completed · 2 x:absent
-- ARGV     1 now · 2 prefix of task hashes · 3 slice (at most 100)
-- Returns  how many ids were removed
local call = redis.call
local now_s = clock(ARGV[1])
local ids = call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now_s), 'LIMIT', 0, tonumber(ARGV[3]))
for _, id in ipairs(ids) do
  local key = ARGV[2] .. id
  local state = peek('HGET', key, 'state')
  -- An id that lies here by mistake must not cost a task that lives elsewhere.
  if state == 'completed' then call('DEL', key) end
end
if #ids > 0 then call('ZREM', KEYS[1], unpack(ids)) end
return #ids

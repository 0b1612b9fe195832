-- Replaces the message of a task that is as it was read, and its unique lock (PROTOCOL 6.3; W16).
-- KEYS     1 task hash; where the lock changes: 2 old lock · 3 new lock
-- ARGV     1 id · 2 state and 3 message as read · 4 new message · 5 new message with the new lock, where it changes
-- Returns  done · changed (it is not as it was read) · duplicate and who holds the new lock
local call, pcall = redis.call, redis.pcall
local id = ARGV[1]
local task = pcall('HMGET', KEYS[1], 'state', 'msg')
if task[1] ~= ARGV[2] or task[2] ~= ARGV[3] then return { 'changed' } end
local fields = { 'msg', ARGV[4] }
if #KEYS == 3 then
  local old, new = KEYS[2], KEYS[3]
  if pcall('GET', old) == id then
    local left = call('PTTL', old)
    local taken
    if left > 0 then taken = call('SET', new, id, 'NX', 'PX', left) else taken = call('SET', new, id, 'NX') end
    if not taken then
      local holder = pcall('GET', new)
      if holder ~= id then return { 'duplicate', type(holder) == 'string' and holder or '' } end
      -- What an earlier task of this id left behind.
      if left > 0 then call('PEXPIRE', new, left) end
    end
    call('DEL', old)
    fields = { 'msg', ARGV[5], 'unique_key', new }
  end
end
call('HSET', KEYS[1], unpack(fields))
return { 'done' }

-- Replaces the message of a task that is as it was read, and its unique lock.
-- KEYS     1-10 as places.lua says · 11 task hash · 12 x:absent; where the lock changes: 13 old lock · 14 new lock
-- ARGV     1 now · 2 prefix of the queue's keys · 3 id · 4 state and 5 message as read · 6 new message
--          · 7 new message with the new lock, where it changes
-- Returns  done · changed (it is not as it was read) · its state (it is in a set, or a move holds it)
--          · duplicate and the holder of the new lock
local id, key = ARGV[3], KEYS[11]
local task = peek('HMGET', key, 'state', 'msg', 'group')
if task[1] ~= ARGV[4] or task[2] ~= ARGV[5] then return { 'changed' } end
local forbidden = untouchable(task[1], id, task[3])
if forbidden then return { forbidden } end
if is_held(KEYS[4], task[1], id, key) then return { task[1] } end
local fields = { 'msg', ARGV[6] }
if #KEYS == 14 then
  local old, new = KEYS[13], KEYS[14]
  if peek('GET', old) == id then
    local holder = holder_of(new, prefix)
    if holder and holder ~= id then return { 'duplicate', holder } end
    local left = call('PTTL', old)
    -- In its last millisecond a lock has 0 ms left, with which SET fails; only a negative answer is a lock that does not end.
    if left < 0 then call('SET', new, id) else call('SET', new, id, 'PX', whole(math.max(left, 1))) end
    call('DEL', old)
  end
  -- A task that holds no lock any more takes none, but its run may take that of its key again.
  fields = { 'msg', ARGV[7], 'unique_key', new }
end
call('HSET', key, unpack(fields))
-- A checkpoint says nothing of another payload.
call('HDEL', key, 'checkpoint')
return { 'done' }

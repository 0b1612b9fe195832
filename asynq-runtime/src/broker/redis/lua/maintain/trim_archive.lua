-- Deletes one slice of archived tasks, id and hash and lock, oldest first.
-- KEYS     1 archived · 2 x:absent
-- ARGV     1 now · 2 prefix of task hashes · 3 slice (at most 100) · 4 most seconds kept · 5 most tasks kept
-- Returns  how many were deleted
local call = redis.call
local now_s = clock(ARGV[1])
local oldest = now_s - tonumber(ARGV[4])
local beyond = call('ZCARD', KEYS[1]) - tonumber(ARGV[5])
local ids = call('ZRANGE', KEYS[1], 0, tonumber(ARGV[3]) - 1, 'WITHSCORES')
local deleted = {}
for i = 1, #ids, 2 do
  if #deleted >= beyond and tonumber(ids[i + 1]) > oldest then break end
  local id, key = ids[i], ARGV[2] .. ids[i]
  local task = peek('HMGET', key, 'state', 'unique_key')
  if task[1] == 'archived' then
    -- asynq keeps the lock of an archived task. The lock must go with the task, because no script frees it later.
    unlock(task[2], id)
    call('DEL', key)
  end
  deleted[#deleted + 1] = id
end
if #deleted > 0 then call('ZREM', KEYS[1], unpack(deleted)) end
return #deleted

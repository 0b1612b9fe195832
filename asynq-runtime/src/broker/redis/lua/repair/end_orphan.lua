-- Ends a task that is active although its lease has passed, as a failure; at a run whose lease holds it keeps that it was asked to stop.
-- KEYS     1-10 as places.lua says · 11 task hash · 12 processed:DATE · 13 processed · 14 failed:DATE · 15 failed
--          · 16 x:absent
-- ARGV     1 now · 2 prefix of the queue's keys · 3 id · 4 message as read · 5 new message · 6 retry or archived
--          · 7 when the counters of the day expire, Unix seconds
-- Returns  done · none (no such task) · changed (it is not as it was read) · or its state: active where its lease holds
local now_s, _, now_ms = clock(ARGV[1])
local id, key = ARGV[3], KEYS[11]
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[3], '')
local task = peek('HMGET', key, 'state', 'msg', 'unique_key', 'group', 'x', 'pending_since')
if task.err or not task[1] then return 'none' end
if task[1] ~= 'active' then return task[1] end
local lease = call('ZSCORE', KEYS[3], id)
if lease and tonumber(lease) > now_s then
  -- The mark names the run, so that no later run of the task is meant. A run of Go's has no token, and Go would not read the mark.
  if task[6] then call('HSET', key, 'cancel', task[6]) end
  return 'active'
end
if task[2] ~= ARGV[4] then return 'changed' end
-- These calls change nothing: a list or zset of a foreign type stops the script here, before the task is in two places.
call('LLEN', KEYS[2])
for _, i in ipairs({ 5, 6, 8 }) do call('ZCARD', KEYS[i]) end
local lock = lock_of(key, task[3], task[4])

-- Nothing of a task that a later tick or enqueue replaced runs again.
if replaced(task[5] or '', task[2]) then
  unlock(lock, id)
  call('LREM', KEYS[2], 0, id)
  call('ZREM', KEYS[3], id)
  call('DEL', key)
  count_runs({ KEYS[12], KEYS[13], KEYS[14], KEYS[15] }, 1, 1, ARGV[7])
  return 'done'
end

if ARGV[6] == 'retry' then
  call('ZADD', KEYS[5], whole(math.ceil(now_ms / 1000)), id)
  note_due(KEYS[8], { whole(now_ms), 'r:' .. id }, now_ms)
else
  call('ZADD', KEYS[6], whole(now_s), id)
  unlock_archived(lock, id, task[5])
end
call('LREM', KEYS[2], 0, id)
call('ZREM', KEYS[3], id)
call('HSET', key, 'msg', ARGV[5], 'state', ARGV[6])
-- Without its token the run of a worker that was only stopped for a while is fenced.
call('HDEL', key, 'pending_since', 'crashes', 'crashes_retried')
remember_failure(key, ARGV[5], ARGV[6] == 'retry', now_ms)
count_runs({ KEYS[12], KEYS[13], KEYS[14], KEYS[15] }, 1, 1, ARGV[7])
return 'done'

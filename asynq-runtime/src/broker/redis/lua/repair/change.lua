-- Runs, archives or deletes one task.
-- KEYS     1-10 as places.lua says · 11 task hash · 12 x:absent
-- ARGV     1 now · 2 prefix of the queue's keys · 3 run, archive or delete · 4 id · 5 the only state in which to do it
--          ('' any)
-- Returns  done · none (no such task) · or the state in which the change is not possible
local now_s, now_ns, now_ms = clock(ARGV[1])
local op, id, key = ARGV[3], ARGV[4], KEYS[11]
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[3], '')
local task = peek('HMGET', key, 'state', 'group', 'unique_key', 'x')
if task.err or (not task[1] and call('EXISTS', key) == 0) then return 'none' end
local state, group = task[1], task[2]

local forbidden = untouchable(state, id, group)
if forbidden then return forbidden end
if is_held(KEYS[4], state, id, key) then return state end
local only = ARGV[5]
-- The listings go by places: a task counts as moved only where its own place agrees with its hash, or the named one is empty.
if only ~= '' and state ~= only and (is_there(state, id, group) or not is_there(only, id, group)) then
  return state or 'none'
end
local already = (op == 'run' and 'pending') or (op == 'archive' and 'archived')
if state == already and is_there(state, id, group) then return state end

local lock = lock_of(key, task[3], group)
if op == 'run' then
  -- This call changes nothing; a pending of a foreign type stops the script here, before the task has left its place.
  call('LLEN', KEYS[1])
  take_out(state, id, group)
  call('LPUSH', KEYS[1], id)
  run_alone(key, lock, now_ns, now_ms)
elseif op == 'archive' then
  call('ZCARD', KEYS[6])
  take_out(state, id, group)
  call('ZADD', KEYS[6], whole(now_s), id)
  call('HSET', key, 'state', 'archived')
  unlock_archived(lock, id, task[4])
else
  take_out(state, id, group)
  unlock(lock, id)
  call('DEL', key)
end
return 'done'

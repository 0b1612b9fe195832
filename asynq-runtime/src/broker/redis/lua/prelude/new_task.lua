-- Prelude of the scripts that store new tasks, so that all store them in one way.
-- KEYS     none
-- ARGV     none; the scripts hand their own to the functions
-- Returns  nothing

-- Returns the Unix milliseconds when a task is due: '' now · '@ms' an instant · '+ms' a delay.
local function due_at(when, now_ms)
  local kind = string.sub(when, 1, 1)
  if kind == '@' then return tonumber(string.sub(when, 2)) end
  if kind == '+' then return now_ms + tonumber(string.sub(when, 2)) end
  return now_ms
end

-- Returns the seconds that a lock is held from now on: its time starts when its task is due.
local function held_for(seconds, due, now_ms)
  if due <= now_ms then return seconds end
  -- An instant comes rounded up and now is rounded down: a millisecond between them may be none.
  return seconds + math.ceil((due - 1 - now_ms) / 1000)
end

-- Returns the id that holds a unique lock, '' for a key of another type, or nil if the lock may be taken: it is free, or its
-- holder's task no longer exists (asynq's deletes and trims leave locks behind, and so does an earlier task of the id that is
-- stored now). `stored` are the ids whose tasks this script is about to store.
local function holder_of(lock, prefix, stored)
  local holder = peek('GET', lock)
  if type(holder) == 'table' then return '' end
  if not holder then return nil end
  if not (stored and stored[holder]) and redis.call('EXISTS', prefix .. 't:' .. holder) == 0 then return nil end
  return holder
end

-- Returns the answer for a task whose id is taken: its place, if it is stored by our own first send whose receipt is gone (a
-- failover); else c. Such a task has an id of our making or the same message.
local function first_send(again, due_key, key, id, msg, ours)
  local task = again and peek('HMGET', key, 'msg', 'state')
  if not task or task.err or not (ours or task[1] == msg) then return 'c' end
  local due = redis.call('ZSCORE', due_key, 's:' .. id)
  if due and task[2] == 'scheduled' then return 's', due end
  return task[2] == 'aggregating' and 'g' or 'p'
end

-- Returns fields and values of a task's hash. `msg` may be '' if the hash has it already; group, lock and x are '' for none. Until
-- it joins its group a task names it in a field that Go does not know: Go's forwarder would put the task into the group, and not
-- name the group where aggregators look.
local function new_fields(msg, state, now_ns, group, lock, x)
  local fields, n = { 'state', state }, 2
  if msg ~= '' then fields, n = { 'msg', msg, 'state', state }, 4 end
  if state == 'pending' then fields[n + 1], fields[n + 2], n = 'pending_since', now_ns, n + 2 end
  if group ~= '' then fields[n + 1], fields[n + 2], n = state == 'scheduled' and 'joins' or 'group', group, n + 2 end
  if lock ~= '' then fields[n + 1], fields[n + 2], n = 'unique_key', lock, n + 2 end
  if x ~= '' then fields[n + 1], fields[n + 2] = 'x', x end
  return fields
end

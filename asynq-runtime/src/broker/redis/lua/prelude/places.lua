-- Prelude of repairs: finds the place of a task, and takes the task out of it.
-- KEYS     of every repair of a placed task: 1 pending · 2 active · 3 lease · 4 scheduled · 5 retry · 6 archived
--          · 7 completed · 8 x:due · 9 groups · 10 aggregation_sets
-- ARGV     2 prefix of the queue's keys
-- Returns  nothing
local call, pcall = redis.call, redis.pcall
local prefix = ARGV[2]
local zsets = { scheduled = KEYS[4], retry = KEYS[5], archived = KEYS[6], completed = KEYS[7] }

-- Ids from each end in which pending is searched first: a task that is shown or replaced mostly is near one of the ends.
local DEEP = 10000

-- Returns the end near which a pending task is, as LREM counts; 0 if it may be between them, nil if it is not there.
local function near(id)
  if call('LPOS', KEYS[1], id, 'RANK', '-1', 'MAXLEN', DEEP) then return -1 end
  if call('LPOS', KEYS[1], id, 'MAXLEN', DEEP) then return 1 end
  return call('LLEN', KEYS[1]) > 2 * DEEP and 0 or nil
end

-- Returns whether the id is where its state says.
local function is_there(state, id, group)
  if state == 'pending' then
    local from = near(id)
    return from and (from ~= 0 or call('LPOS', KEYS[1], id)) and true
  elseif state == 'active' then
    return call('LPOS', KEYS[2], id) and true
  elseif zsets[state] then
    return call('ZSCORE', zsets[state], id) and true
  elseif state == 'aggregating' and group then
    return type(peek('ZSCORE', prefix .. 'g:' .. group, id)) == 'string'
  end
  return false
end

-- Returns whether the task is in a set that a server is aggregating.
local function is_in_a_set(id)
  for _, set in ipairs(call('ZRANGE', KEYS[10], 0, -1)) do
    if type(peek('ZSCORE', set, id)) == 'string' then return true end
  end
  return false
end

-- Returns the state that forbids to touch the task, or nil. A task that says it is active and has neither place nor lease is left
-- behind by an outcome of Go that broke off half way.
local function untouchable(state, id, group)
  if (state == 'active' and call('ZSCORE', KEYS[3], id)) or is_there('active', id) then return 'active' end
  if state == 'aggregating' and not is_there(state, id, group) and is_in_a_set(id) then return state end
end

-- Takes the id out of the place of a state, and returns how often it was there. A place of a foreign type holds no id.
local function leave(state, id, group)
  local gone = 0
  if state == 'pending' then
    local from = call('TYPE', KEYS[1]).ok == 'list' and near(id)
    -- The whole list is searched only for an id that is deep in it. If the id of a task that is deleted is there twice, a dequeue
    -- drops the one that is left.
    while from and from ~= 0 do
      gone = gone + call('LREM', KEYS[1], from, id)
      from = near(id)
    end
    if from == 0 and gone == 0 then gone = call('LREM', KEYS[1], 0, id) end
  elseif zsets[state] then
    gone = pcall('ZREM', zsets[state], id)
    if state == 'scheduled' or state == 'retry' then pcall('ZREM', KEYS[8], string.sub(state, 1, 1) .. ':' .. id) end
  elseif state == 'aggregating' and group then
    gone = pcall('ZREM', prefix .. 'g:' .. group, id)
    -- The name of an empty group goes with its last task.
    if call('EXISTS', prefix .. 'g:' .. group) == 0 then pcall('SREM', KEYS[9], group) end
  end
  return type(gone) == 'number' and gone or 0
end

-- Takes a task out of wherever it is: where its state says, or else anywhere (an unknown state, a leftover of Go).
local function take_out(state, id, group)
  if leave(state, id, group) > 0 then return end
  for _, other in ipairs({ 'pending', 'scheduled', 'retry', 'archived', 'completed', 'aggregating' }) do
    leave(other, id, group)
  end
end

-- Returns the lock in the hash or, where asynq wrote it there alone, in the message; nil for a lock of another queue.
local function lock_of(key, field, group)
  local lock = field
  if not lock and group then
    local msg = peek('HGET', key, 'msg')
    lock = type(msg) == 'string' and proto(msg, 10)
  end
  if type(lock) == 'string' and string.sub(lock, 1, #prefix) == prefix then return lock end
end

-- Makes a task pending that has left its place and runs by itself from now on: with a new count of crashes, out of its group for
-- good (a retry does not lead back), off any move that broke off, and without an expiry that has passed. The lock that asynq named
-- in the message alone because of the group goes to the hash, where the server that ends the task looks for it.
local function run_alone(key, lock, now_ns, now_ms)
  -- A completed task begins anew. Our servers delete the checkpoint on completion, a Go worker does not.
  if call('HGET', key, 'state') == 'completed' then call('HDEL', key, 'checkpoint') end
  call('HSET', key, 'state', 'pending', 'pending_since', now_ns)
  if lock then call('HSET', key, 'unique_key', lock) end
  call('HDEL', key, 'crashes', 'crashes_retried', 'move', 'group', 'joins')
  local x = call('HGET', key, 'x')
  if not x then return end
  -- Fields of the message in x, whose last value counts: 7 and 9 say that the last run was replaced, and how it ended; 6 counts the
  -- attempts in a row that were not a failure; 3 is the expiry, which moves to the end of the year 9999 (one before 1970 is negative, and
  -- is read as 2^63 or more); 2 is the record of the workers that did not know the task, which is over when its field 3 is not the
  -- number of the task's failures.
  local new, expires, unknown = '', proto(x, 3), proto(x, 2)
  if (proto(x, 7) or 0) ~= 0 then new = '\56\0' end
  if (proto(x, 9) or 0) ~= 0 then new = new .. '\72\0' end
  if (proto(x, 6) or 0) ~= 0 then new = new .. '\48\0' end
  if type(unknown) == 'string' and proto(unknown, 3) ~= 4294967295 then new = new .. '\18\6\24\255\255\255\255\15' end
  if type(expires) == 'number' and (expires <= now_ms or expires >= 2 ^ 63) then new = new .. '\24' .. write_varint(253402300799000) end
  if new ~= '' then call('HSET', key, 'x', x .. new) end
end

-- Takes up to n pending tasks of one queue, oldest first (docs/design/fence.md#taking-a-task).
-- KEYS     1 pending · 2 paused · 3 active · 4 lease · 5 x:orphans
-- ARGV     1 now · 2 prefix of task hashes · 3 n (at most 64) · 4 run token · 5 lease seconds
--          · 6 bytes of messages after which it stops · 7 most quarantined tasks · 8 crash limit of a task without its own
--          · 9 bytes of a message that is read here; the caller reads longer ones itself
-- Returns  { id, msg, id, msg, .. }, with nil for a message that is longer,
--          { number of the task, crashes, x, .. } for tasks with crashes or x, and in one text, with a space between: now, and
--          since when each task was pending, in nanoseconds, '?' if unknown; and if quarantined tasks were passed, how many,
--          and 1 if pending has no other task left
local call, pcall = redis.call, redis.pcall
local prefix, n, token = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local tasks, facts, since = {}, {}, {}
if call('EXISTS', KEYS[2]) == 1 then return { tasks, facts } end

local rounds, room, taken, quarantined, default_limit = 0, tonumber(ARGV[6]), 0, tonumber(ARGV[7]), tonumber(ARGV[8])
local longest = tonumber(ARGV[9])
local orphans, spared, is_spared, reached_end, refused = {}, {}, {}, false, nil

local function leave(id)
  call('LREM', KEYS[3], 1, id)
  call('ZREM', KEYS[4], id)
end

-- How many crashes archive the task: field 1 of the protobuf message x, which stands first, or the default.
local function crash_limit(x)
  return x and string.byte(x, 1) == 8 and read_varint(x, 2) or default_limit
end

-- Returns the fields of a task and the length of its message, nil without one. A message longer than `longest` is not read,
-- because Lua looks at each byte of a string that it is given. pcall: one key of a wrong type must not stop the others. Returns
-- nil where Redis refuses to read any task; `refused` then is its error.
local function read(key)
  local size = longest and pcall('HSTRLEN', key, 'msg')
  local is_long = type(size) == 'number' and size > longest
  local task = pcall('HMGET', key, is_long and 'state' or 'msg', 'pending_since', 'crashes', 'x', 'progress', 'crashes_retried')
  if task.err and not is_foreign(task) then
    refused = task
    return nil
  end
  if is_long then task[1] = false else size = task[1] and #task[1] end
  return task, size
end

-- Puts the ids from number `first` on back to the head of pending, where they were, the oldest last, and ends the call.
local function give_back(ids, first)
  local is_taken = {}
  for i = 1, taken do is_taken[tasks[2 * i - 1]] = true end
  for i = #ids, first, -1 do
    if is_taken[ids[i]] then
      -- The id was in pending twice, and its lease is that of the run that this call has begun.
      call('LREM', KEYS[3], 1, ids[i])
    else
      leave(ids[i])
      call('RPUSH', KEYS[1], ids[i])
    end
  end
  room = 0
end

while taken < n and rounds < 16 and room > 0 do
  rounds = rounds + 1
  local wanted = n - taken
  -- RPOP is not a command that memory limits forbid, so as the first write it lets the whole script run when memory is full.
  local ids = call('RPOP', KEYS[1], wanted)
  if not ids or #ids == 0 then
    reached_end = true
    break
  end
  local now_s, now_ns = clock(ARGV[1])
  local leases, until_s = {}, whole(now_s + tonumber(ARGV[5]))
  since[1] = since[1] or now_ns
  for i = 1, #ids do
    leases[2 * i - 1], leases[2 * i] = until_s, ids[i]
  end
  -- Active and lease are written before any hash: an error below leaves nothing that cannot be recovered. A foreign key of a
  -- wrong type must not make popped ids vanish.
  local held = pcall('LPUSH', KEYS[3], unpack(ids))
  if type(held) == 'number' then
    held = pcall('ZADD', KEYS[4], unpack(leases))
    if type(held) ~= 'number' then
      for i = 1, #ids do call('LREM', KEYS[3], 1, ids[i]) end
    end
  end
  if type(held) ~= 'number' then
    for i = #ids, 1, -1 do call('RPUSH', KEYS[1], ids[i]) end
    return held
  end
  for i = 1, #ids do
    local id = ids[i]
    local key = prefix .. id
    local task, size
    if room > 0 then task, size = read(key) end
    if not task then
      -- After large messages the answer has to arrive in time. A task that Redis refuses to read must not count as gone.
      give_back(ids, i)
      break
    end
    local crashes = crashes_of(key, task[1], task[3], task[6])
    local is_quarantined = crashes > 0 and crashes + 1 >= crash_limit(task[4])
    -- `pending_since` of a task may be equal to the token by chance, but only tasks that this call took are active with it.
    if is_spared[id] or task[2] == token and call('HGET', key, 'state') == 'active' then
      -- The id was in pending twice.
      call('LREM', KEYS[3], 1, id)
    elseif not size then
      leave(id)
      orphans[#orphans + 1] = id
    elseif is_quarantined and quarantined == 0 then
      leave(id)
      is_spared[id] = true
      spared[#spared + 1] = id
    else
      local written = pcall('HSET', key, 'state', 'active', 'pending_since', token)
      if type(written) == 'table' then
        refused = written
        give_back(ids, i)
        break
      end
      room = room - size
      taken = taken + 1
      tasks[2 * taken - 1], tasks[2 * taken] = id, task[1]
      since[1 + taken] = task[2] or '?'
      if is_quarantined then quarantined = quarantined - 1 end
      if crashes > 0 or task[4] then
        facts[#facts + 1] = taken
        facts[#facts + 1] = whole(crashes)
        facts[#facts + 1] = task[4] or ''
      end
      if task[5] then call('HDEL', key, 'progress') end
    end
  end
  if #ids < wanted then
    -- Pending may hold ids that were requeued for want of room.
    reached_end = room > 0
    break
  end
end
if taken > 0 or rounds < 16 then
  -- The quarantined tasks go back to the head, where they were, the oldest last.
  for i = #spared, 1, -1 do call('RPUSH', KEYS[1], spared[i]) end
else
  -- The quarantined tasks hid all tasks behind them: they go to the other end, in their order, so that the next call reaches the
  -- others.
  for i = 1, #spared do call('LPUSH', KEYS[1], spared[i]) end
end
note_orphans(KEYS[5], orphans)
-- Tasks that this call took before come first; the next call says why there are no more.
if refused and taken == 0 then return refused end
local answer = { tasks, facts, table.concat(since, ' ') }
if #spared > 0 then answer[4], answer[5] = #spared, reached_end and 1 or 0 end
return answer

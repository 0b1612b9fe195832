-- Stores up to 8 tasks of one queue, one after the other, each of which replaces an equal one (docs/design/wire.md#replace).
-- KEYS     1-10 as places.lua says · 11 x:sent:.. (receipt of this sender's slot) · 12.. one task hash per item, then one unique
--          lock per item
-- ARGV     1 now · 2 prefix of the queue's keys · 3 items · 4 number of this send · 5 sent before? 0|1
--          · 6 seconds that the receipt is kept; then per item:
--          id · msg · when (as in enqueue.lua) · lock seconds · x ('' none) · id made by us? 0|1
--          · most ms between the first enqueue of those that replace each other and the due time ('' no bound)
-- Returns  letters and now as enqueue.lua, c d p s and their texts; and
--          r a task that waits has the new arguments and time: its id, p or s, due ms
local now_s, now_ns, now_ms = clock(ARGV[1])
local n, sent, again = tonumber(ARGV[3]), ARGV[4] .. ' ', ARGV[5] == '1'

local before = again and answered(KEYS[11], sent, ARGV[6])
if before then return before end

-- These calls change nothing: a key of a foreign type stops the script here, before anything is changed.
call('LLEN', KEYS[1])
for _, i in ipairs({ 4, 5, 8 }) do call('ZCARD', KEYS[i]) end

-- Returns the task that holds the lock, if it is scheduled, pending, waiting for its next attempt, or active, and neither moves to
-- another queue nor is to join a group.
local function find(id, lock)
  local key = prefix .. 't:' .. id
  local task = peek('HMGET', key, 'state', 'unique_key', 'move', 'x', 'group', 'joins')
  if task.err or task[2] ~= lock or task[3] or task[5] or task[6] then return nil end
  local found = { id = id, key = key, state = task[1], x = task[4] or '' }
  if found.state == 'pending' then
    found.near = near(id)
    return found.near and found
  elseif found.state == 'scheduled' or found.state == 'retry' or found.state == 'active' then
    return is_there(found.state, id) and found
  end
end

-- Returns when the new task is due, and its extra facts. `since` is when the first of the tasks that replace each other came.
local function bounded(when, x, most, since)
  local due = due_at(when, now_ms)
  if most == '' then return due, x end
  -- A burst that begins in the future began before the clock was set back, and its limit would be as far away.
  since = math.min(since, now_ms)
  -- Field 11 of the message in x.
  return math.min(due, since + tonumber(most)), x .. '\88' .. write_varint(since)
end

-- Moves a task that waits to the place for a time, and returns the state that it has then. A pending task that is deeper than
-- `near` looks stays where it is.
local function move(task, due)
  if due > now_ms and task.near ~= 0 then
    call('ZADD', KEYS[4], whole(math.ceil(due / 1000)), task.id)
    note_due(KEYS[8], { whole(due), 's:' .. task.id }, now_ms)
    if task.near then call('LREM', KEYS[1], task.near, task.id) end
    if task.state == 'retry' then leave('retry', task.id) end
    return 'scheduled'
  end
  -- A pending task keeps its position.
  if task.state ~= 'pending' then
    call('LPUSH', KEYS[1], task.id)
    leave(task.state, task.id)
  end
  return 'pending'
end

local keys = { prefix = prefix, pending = KEYS[1], scheduled = KEYS[4], due = KEYS[8], groups = KEYS[9] }
local letters, answers, has_changed, is_known = {}, { '', whole(now_ms) }, false, false
local function say(text) answers[#answers + 1] = text end

for i = 1, n do
  local p = 7 * i
  local id, msg, x, most = ARGV[p], ARGV[p + 1], ARGV[p + 4], ARGV[p + 6]
  local key, lock, seconds = KEYS[11 + i], KEYS[11 + n + i], tonumber(ARGV[p + 3])
  local letter, due
  if call('EXISTS', key) == 1 then
    letter, due = first_send(again, KEYS[8], key, id, msg, ARGV[p + 5] == '1')
    if due then say(due) end
    is_known = is_known or letter ~= 'c'
  else
    local holder = holder_of(lock, prefix)
    local held = holder and holder ~= '' and find(holder, lock)
    if holder and not held then
      letter = 'd'
      say(holder)
    elseif held and held.state ~= 'active' then
      letter, has_changed = 'r', true
      -- A burst begins anew when an attempt has failed. An outcome of our servers forgets the beginning, one of Go keeps it.
      local since = held.state ~= 'retry' and proto_number(held.x, 11) or 0
      if since == 0 then since = now_ms end
      due, x = bounded(ARGV[p + 2], x, most, since)
      -- The last value of a field counts. The task keeps its id, and the retention that was promised to a client that awaits its
      -- result.
      msg = msg .. '\26' .. write_varint(#holder) .. holder
      if proto(held.x, 8) == 1 then
        x = x .. '\64\1'
        if (proto(msg, 12) or 0) < 60 then msg = msg .. '\96\60' end
      end
      local was, state = held.state, move(held, due)
      call('SET', lock, holder, 'EX', whole(held_for(seconds, due, now_ms)))
      call('HSET', held.key, 'msg', msg, 'state', state)
      -- The facts of its attempts belong to the former arguments.
      call('HDEL', held.key, 'crashes', 'crashes_retried', 'checkpoint', 'progress', 'result', 'group', 'fails', 'e0', 'e1', 'e2', 'e3',
        'e4', 'e5', 'e6', 'e7', 'e8', 'e9', 'x')
      if x ~= '' then call('HSET', held.key, 'x', x) end
      if state == 'pending' and was ~= 'pending' then call('HSET', held.key, 'pending_since', now_ns) end
      say(holder)
      say(state == 'scheduled' and 's' or 'p')
      say(whole(math.max(state == 'scheduled' and due or now_ms, now_ms)))
    else
      has_changed = true
      due, x = bounded(ARGV[p + 2], x, most, now_ms)
      local state = destination(due, '', keys, now_ms)
      store_new({ id = id, key = key, msg = msg, state = state, due = due, lock = lock, seconds = seconds, x = x, group = '' }, keys,
        now_s, now_ns, now_ms)
      -- The run with older arguments is deleted where it would be run again with them.
      if held then call('HSET', held.key, 'x', held.x .. replaced_mark(call('HGET', held.key, 'msg') or '')) end
      letter = state == 'scheduled' and 's' or 'p'
      if letter == 's' then say(whole(due)) end
    end
  end
  letters[i] = letter
end
answers[1] = table.concat(letters)
leave_receipt(KEYS[11], sent, ARGV[6], answers, has_changed, is_known)
return answers

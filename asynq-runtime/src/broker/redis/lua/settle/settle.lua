-- Ends up to 64 runs of one queue, each only if the run still holds its task, and frees the unique locks of tasks that end for
-- good (docs/design/fence.md#settle).
-- KEYS     1 active · 2 lease · 3 pending · 4 completed · 5 retry · 6 archived · 7 x:due · 8 processed:DATE · 9 processed
--          · 10 failed:DATE · 11 failed · 12.. one task hash per item · then x:absent
-- ARGV     1 now · 2 when the counters of the day expire, Unix seconds; then per item: op id token and, by op,
--          d (done): lock ('' none, or one that stays)
--          c (complete): msg · retention seconds · lock · result? 0|1, or - to delete an earlier one · result ·
--          x ('' as it is, without an earlier ending)
--          r (retry): msg ('' unchanged) · delay ms · counted 0|1, or - where the run did not begin: the crashes stay ·
--          x ('' none) · a new error in msg? 0|1
--          a (archive): msg · lock where the hash names none · x ('' none)
--          q (requeue): nothing more
--          A task that was replaced while it ran is deleted in place of r, a and q.
-- Returns  one letter per item: o done as asked · b this run has ended before · f fenced · g gone · e the key is not a
--          hash · w a container of the queue is of a foreign type, nothing was changed
local call, KEYS, ARGV = redis.call, KEYS, ARGV
local now_s, now_ns, now_ms = clock(ARGV[1])
local letters, ended, deleted, processed, failed = {}, {}, {}, 0, 0
local requeued, completed, retried, due, archived = {}, {}, {}, {}, {}

local function push(list, a, b)
  list[#list + 1] = a
  if b then list[#list + 1] = b end
end

local function store(key, state, token, msg, x, keeps_crashes)
  if msg == '' then
    call('HSET', key, 'state', state, 'last', token)
  else
    call('HSET', key, 'msg', msg, 'state', state, 'last', token)
  end
  local gone = { 'pending_since' }
  if not keeps_crashes then gone[2], gone[3] = 'crashes', 'crashes_retried' end
  if x == '' then gone[#gone + 1] = 'x' end
  call('HDEL', key, unpack(gone))
  if x and x ~= '' then call('HSET', key, 'x', x) end
end

-- Returns whether the containers that an outcome needs are of their types.
local function has_room(op)
  if not fits(KEYS[2], 'zset') then return false end
  if op == 'd' then return true end
  if op == 'c' then return fits(KEYS[4], 'zset') end
  if op == 'r' then return fits(KEYS[5], 'zset') and fits(KEYS[7], 'zset') end
  if op == 'a' then return fits(KEYS[6], 'zset') end
  return fits(KEYS[3], 'list')
end

-- Returns whether the task was replaced during this run. The mark of an earlier run is removed.
local function is_replaced(key)
  local x = call('HGET', key, 'x') or ''
  if proto_number(x, 7) == 0 then return false end
  if replaced(x, call('HGET', key, 'msg') or '') then return true end
  call('HSET', key, 'x', x .. '\56\0')
  return false
end

-- Removes how an earlier run ended (field 9 of x), which stays on a task that a Go tool runs again.
local function forget_ending(key)
  local x = call('HGET', key, 'x')
  if x and proto_number(x, 9) ~= 0 then call('HSET', key, 'x', x .. '\72\0') end
end

local width = { d = 4, c = 9, r = 8, a = 6, q = 3 }

-- As those of `probe`, the other calls change nothing: a right that is missing stops the script here, before a task has left active.
if fits(KEYS[2], 'zset') then call('ZREM', KEYS[2], '') end
probe(KEYS[#KEYS])
call('ZADD', KEYS[#KEYS], 'XX', 0, '')
local p = 3
while p <= #ARGV and ARGV[p] ~= 'q' do p = p + width[ARGV[p]] end
if p <= #ARGV then
  call('RPUSH', KEYS[#KEYS], '')
  call('DEL', KEYS[#KEYS])
end

p = 3
while p <= #ARGV do
  local op, id, token = ARGV[p], ARGV[p + 1], ARGV[p + 2]
  local key = KEYS[12 + #letters]
  local letter = leave_active(KEYS[1], key, id, token, has_room(op), deleted)
  if letter == 'o' then
    ended[#ended + 1] = id
    if (op == 'r' or op == 'a' or op == 'q') and is_replaced(key) then
      deleted[#deleted + 1] = key
      unlock(call('HGET', key, 'unique_key'), id)
    elseif op == 'd' then
      deleted[#deleted + 1] = key
      unlock(ARGV[p + 3], id)
    elseif op == 'c' then
      store(key, 'completed', token, ARGV[p + 3])
      call('HDEL', key, 'checkpoint')
      if ARGV[p + 6] == '1' then call('HSET', key, 'result', ARGV[p + 7]) end
      if ARGV[p + 6] == '-' then call('HDEL', key, 'result') end
      if ARGV[p + 8] ~= '' then call('HSET', key, 'x', ARGV[p + 8]) else forget_ending(key) end
      push(completed, whole(now_s + tonumber(ARGV[p + 4])), id)
      unlock(ARGV[p + 5], id)
    elseif op == 'r' then
      local at = now_ms + tonumber(ARGV[p + 4])
      store(key, 'retry', token, ARGV[p + 3], ARGV[p + 6], ARGV[p + 5] == '-')
      if ARGV[p + 7] == '1' then remember_failure(key, ARGV[p + 3], ARGV[p + 5] == '1', now_ms) end
      push(retried, whole(math.ceil(at / 1000)), id)
      push(due, whole(at), 'r:' .. id)
    elseif op == 'a' then
      store(key, 'archived', token, ARGV[p + 3], ARGV[p + 5])
      remember_failure(key, ARGV[p + 3], false, now_ms)
      push(archived, whole(now_s), id)
      -- The message may be one that cannot be read, and then names no lock.
      unlock_archived(call('HGET', key, 'unique_key') or ARGV[p + 4], id, ARGV[p + 5])
    else
      call('HSET', key, 'state', 'pending', 'pending_since', now_ns, 'last', token)
      push(requeued, id)
    end
    local has_failed = op == 'a' or op == 'r' and ARGV[p + 5] == '1'
    if has_failed or op == 'd' or op == 'c' then processed = processed + 1 end
    if has_failed then failed = failed + 1 end
  end
  letters[#letters + 1] = letter
  p = p + width[op]
end

if #ended > 0 then call('ZREM', KEYS[2], unpack(ended)) end
if #deleted > 0 then call('DEL', unpack(deleted)) end
if #completed > 0 then call('ZADD', KEYS[4], unpack(completed)) end
if #retried > 0 then call('ZADD', KEYS[5], unpack(retried)) end
if #archived > 0 then call('ZADD', KEYS[6], unpack(archived)) end
-- RPUSH pushes one after the other: the next dequeue takes the last of them first.
if #requeued > 0 then call('RPUSH', KEYS[3], unpack(requeued)) end
-- Each task is in its place by now, so that a right which is missing from here on loses none.
if #retried > 0 then note_due(KEYS[7], due, now_ms) end

count_runs({ KEYS[8], KEYS[9], KEYS[10], KEYS[11] }, processed, failed, ARGV[2])
return table.concat(letters)

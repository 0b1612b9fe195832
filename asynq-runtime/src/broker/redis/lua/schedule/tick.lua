-- Fires one tick of an entry: marker, last tick and enqueue in one step (docs/design/schedules.md#a-tick).
-- KEYS     1-10 as places.lua says · 11 x:cron:ENTRY · 12 x:tick:ENTRY:UNIX · 13 task hash · then its unique lock, if it
--          has one · then its group, if it has one
-- ARGV     1 now · 2 prefix of the queue's keys · 3 the tick, Unix seconds · 4 spec · 5 zone · 6 revision · 7 seconds the
--          entry is remembered · 8 seconds the marker is kept · 9 overlap: allow, skip or replace · 10 further grace of a
--          Go run, seconds; and of the task: 11 id · 12 msg · 13 when (as in enqueue.lua) · 14 lock ('' none)
--          · 15 lock seconds · 16 x ('' none) · 17 group ('' none) · 18 the entry's last tick as the scheduler knows it, Unix
--          ms ('' unknown)
-- Returns  o, p|s|g and due ms (enqueued) · e and ms left (early) · s (stale) · b (behind) · p (paused) · d and, if the clock
--          went back, 'back' (duplicate) · k and an id (skipped) · c (id taken) · u and the lock's holder (unique) · w and a key of
--          a foreign type (nothing was changed)
local now_s, now_ns, now_ms = clock(ARGV[1])
local at_ms = tonumber(ARGV[3]) * 1000
local spec, zone, revision, overlap = ARGV[4], ARGV[5], ARGV[6], ARGV[9]
local kept_in, marker, key = KEYS[11], KEYS[12], KEYS[13]
local id, lock, group = ARGV[11], ARGV[14], ARGV[17]

if at_ms > now_ms then return { 'e', whole(at_ms - now_ms) } end
local entry, failed = read_entry(kept_in)
if failed then return { 'w', kept_in } end
-- An entry that was lost is a new one; its markers stay.
entry = entry or { spec = spec, zone = zone, revision = revision, last = at_ms - 1, previous = '' }
if newer(entry.revision, revision) and (entry.spec ~= spec or entry.zone ~= zone) then return { 's', '' } end

-- If the clock went back, a tick of this moment fires, and no earlier one.
local went_back = is_ahead(entry, now_ms)
local last = went_back and now_ms - 5000 or entry.last

-- Acknowledged ticks are lost. This tick must wait: it would hide the lost ones.
if not went_back and entry.last < (tonumber(ARGV[18]) or 0) and entry.is_kept then return { 'b', '' } end

-- Keeps the progress of the entry, in the plan of the newest program that fires it.
local function keep(until_ms, previous)
  -- This call removes nothing; as the first write it lets the script run when memory is full.
  call('HDEL', kept_in, '')
  if newer(entry.revision, revision) then revision = entry.revision end
  call('HSET', kept_in, 'spec', spec, 'tz', zone, 'rev', revision, 'last', whole(until_ms), 'prev', previous)
  call('EXPIRE', kept_in, ARGV[7])
end

-- The tick counts as fired, but there is no new task.
local function fired(code, detail)
  keep(at_ms, entry.previous)
  call('SET', marker, '1', 'EX', ARGV[8])
  return { code, detail }
end

if at_ms <= last or call('EXISTS', marker) == 1 then
  if went_back or at_ms > last then keep(math.max(at_ms, last), entry.previous) end
  return { 'd', went_back and 'back' or '' }
end
if entry.paused then
  keep(at_ms, entry.previous)
  return { 'p', '' }
end

-- The task of the previous tick waits, runs, or is nowhere. A task whose lease is past runs yet, or comes back: a tick is skipped
-- for it, and a replacement deletes it.
local previous, there = nil, nil
if entry.previous ~= '' and overlap ~= 'allow' then
  local name = prefix .. 't:' .. entry.previous
  local task = peek('HMGET', name, 'state', 'group', 'unique_key', 'pending_since', 'x')
  if not task.err and task[1] then
    previous = {
      id = entry.previous, key = name, state = task[1], group = task[2], lock = task[3], token = task[4], extra = task[5] or '',
    }
    if is_held(KEYS[4], previous.state, previous.id, name) then
      -- A move holds it, and both queues may have the task.
      there = 'is taken'
    elseif previous.state == 'active' then
      local lease = call('ZSCORE', KEYS[3], previous.id)
      -- A run without a token is Go's, and Go gives its own runs this much longer.
      local grace = task[4] and 0 or tonumber(ARGV[10])
      if lease and overlap == 'replace' and tonumber(lease) <= now_s - grace then
        there = 'lapsed'
      elseif lease or is_there('active', previous.id) then
        there = 'runs'
      end
    elseif previous.state == 'pending' then
      -- A task that is deep in the list counts as waiting: a search of a list of a million takes 27 ms. Only one that is replaced is
      -- searched for, because its id must leave the list.
      if near(previous.id) then there = 'waits' end
    elseif previous.state ~= 'archived' and previous.state ~= 'completed' then
      if is_there(previous.state, previous.id, previous.group) then
        there = 'waits'
      elseif previous.state == 'aggregating' and is_in_a_set(previous.id) then
        there = 'is taken'
      end
    end
  end
end
if there and overlap == 'skip' then return fired('k', previous.id) end
-- Whether the previous task has to be deleted.
local goes = there == 'waits' or there == 'lapsed'

if call('EXISTS', key) == 1 then return fired('c', '') end
if lock ~= '' then
  local holder = holder_of(lock, prefix)
  -- A previous task that is deleted takes its lock with it.
  if holder and not (goes and holder == previous.id) then return fired('u', holder) end
end

local keys = { prefix = prefix, pending = KEYS[1], scheduled = KEYS[4], due = KEYS[8], groups = KEYS[9] }
local new = {
  id = id, key = key, msg = ARGV[12], due = due_at(ARGV[13], now_ms), lock = lock, seconds = tonumber(ARGV[15]), x = ARGV[16],
  group = group,
}
local wanted
new.state, wanted = destination(new.due, group, keys, now_ms)
if goes and previous.group then wanted[KEYS[9]] = 'set' end
for name, kind in pairs(wanted) do
  if not fits(name, kind) then return { 'w', name } end
end

local former_lock = goes and lock_of(previous.key, previous.lock, previous.group)
-- SET is refused when memory is full, with nothing changed. From here on nothing can fail.
call('SET', marker, '1', 'EX', ARGV[8])
if there == 'lapsed' then
  pcall('LREM', KEYS[2], 0, previous.id)
  call('ZREM', KEYS[3], previous.id)
end
if goes then
  if there == 'waits' then take_out(previous.state, previous.id, previous.group) end
  unlock(former_lock, previous.id)
  call('DEL', previous.key)
end
store_new(new, keys, now_s, now_ns, now_ms)
if there == 'runs' then
  -- settle.lua deletes the task where it would be run again.
  call('HSET', previous.key, 'x', previous.extra .. replaced_mark(call('HGET', previous.key, 'msg') or ''))
  -- A worker that does not listen just now reads this when it listens again.
  if previous.token then call('HSET', previous.key, 'cancel', previous.token) end
  -- An ACL may forbid the channel.
  pcall('PUBLISH', 'asynq:cancel', previous.id)
end
keep(at_ms, id)
local letter = { pending = 'p', scheduled = 's', aggregating = 'g' }
return { 'o', letter[new.state], whole(math.max(new.due, now_ms)) }

-- Takes up to n pending tasks of one queue, oldest first (PROTOCOL 5.5, FENCE 3).
-- KEYS     1 pending · 2 paused · 3 active · 4 lease · 5 x:orphans
-- ARGV     1 now · 2 prefix of task hashes · 3 n (at most 64) · 4 run token · 5 lease seconds
--          · 6 bytes of messages after which it stops · 7 most tasks whose worker died while it ran them
-- Returns  { id, msg, id, msg, .. }, { number of the task, crashes, x, .. } for those that have one, and
--          { now, pending since when, .. } of each in nanoseconds, '' where that is not known
local call, pcall = redis.call, redis.pcall
local prefix, n, token = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local tasks, facts, since = {}, {}, {}
if call('EXISTS', KEYS[2]) == 1 then return { tasks, facts } end

local orphans, seen, rounds, room, taken = {}, {}, 0, tonumber(ARGV[6]), 0
local suspects, spared = tonumber(ARGV[7]), {}

-- A foreign key of a wrong type must not make popped ids vanish.
local function take(ids, leases)
  local failed = pcall('LPUSH', KEYS[3], unpack(ids))
  if type(failed) == 'number' then
    failed = pcall('ZADD', KEYS[4], unpack(leases))
    if type(failed) == 'number' then return end
    for _, id in ipairs(ids) do call('LREM', KEYS[3], 1, id) end
  end
  for i = #ids, 1, -1 do call('RPUSH', KEYS[1], ids[i]) end
  return failed
end

local function leave(id)
  call('LREM', KEYS[3], 1, id)
  call('ZREM', KEYS[4], id)
end

while taken < n and rounds < 16 and room > 0 do
  rounds = rounds + 1
  -- RPOP is no command that memory limits forbid, so as the first write it lets the whole script run when memory is full.
  local ids = call('RPOP', KEYS[1], n - taken)
  if not ids or #ids == 0 then break end
  local now_s, now_ns = clock(ARGV[1])
  local leases, until_s = {}, whole(now_s + tonumber(ARGV[5]))
  since[1] = since[1] or now_ns
  for i, id in ipairs(ids) do
    leases[2 * i - 1], leases[2 * i] = until_s, id
  end
  -- Active and lease before any hash is touched: an error below leaves nothing that cannot be recovered.
  local failed = take(ids, leases)
  if failed then return failed end
  for i, id in ipairs(ids) do
    if room <= 0 then
      -- Large messages: the rest goes back, the oldest last, so that the answer arrives in time.
      for j = #ids, i, -1 do
        leave(ids[j])
        call('RPUSH', KEYS[1], ids[j])
      end
      break
    end
    local key = prefix .. id
    -- pcall: one key of a wrong type must not stop the others.
    local task = pcall('HMGET', key, 'msg', 'crashes', 'x', 'progress', 'pending_since')
    local msg, crashes = task[1], 0
    if task[2] then crashes = tonumber(task[2]) or 0 end
    if seen[id] then
      call('LREM', KEYS[3], 1, id)
    elseif msg and crashes > 0 and suspects == 0 then
      seen[id] = true
      leave(id)
      spared[#spared + 1] = id
    elseif msg then
      if crashes > 0 then suspects = suspects - 1 end
      seen[id] = true
      room = room - #msg
      call('HSET', key, 'state', 'active', 'pending_since', token)
      if task[4] then call('HDEL', key, 'progress') end
      taken = taken + 1
      tasks[2 * taken - 1], tasks[2 * taken] = id, msg
      since[1 + taken] = task[5] or ''
      if task[2] or task[3] then
        facts[#facts + 1] = taken
        facts[#facts + 1] = task[2] or '0'
        facts[#facts + 1] = task[3] or ''
      end
    else
      leave(id)
      orphans[#orphans + 1] = id
    end
  end
end
-- Back to where they were, the oldest last: at the head again.
for i = #spared, 1, -1 do call('RPUSH', KEYS[1], spared[i]) end
if #orphans > 0 then
  call('SADD', KEYS[5], unpack(orphans))
  call('EXPIRE', KEYS[5], 604800)
end
return { tasks, facts, since }

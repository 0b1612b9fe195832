-- Takes up to n pending tasks of one queue, oldest first (PROTOCOL 5.5, FENCE 3).
-- KEYS     1 pending · 2 paused · 3 active · 4 lease · 5 x:orphans
-- ARGV     1 now · 2 prefix of task hashes · 3 n (at most 64) · 4 run token · 5 lease seconds
-- Returns  { id, msg, id, msg, .. } and { number of the task, crashes, x, .. } for those that have one
local call = redis.call
local prefix, n, token = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local tasks, facts = {}, {}
if call('EXISTS', KEYS[2]) == 1 then return { tasks, facts } end

local orphans, seen, rounds = {}, {}, 0
while #tasks < 2 * n and rounds < 16 do
  rounds = rounds + 1
  -- RPOP is no command that memory limits forbid, so as the first write it lets the whole script run when memory is full.
  local ids = call('RPOP', KEYS[1], n - #tasks / 2)
  if not ids or #ids == 0 then break end
  local leases, until_s = {}, whole((clock(ARGV[1])) + tonumber(ARGV[5]))
  for i, id in ipairs(ids) do
    leases[2 * i - 1], leases[2 * i] = until_s, id
  end
  -- Active and lease before any hash is touched: an error below leaves nothing that cannot be recovered.
  call('LPUSH', KEYS[3], unpack(ids))
  call('ZADD', KEYS[4], unpack(leases))
  for _, id in ipairs(ids) do
    local key = prefix .. id
    -- pcall: one key of a wrong type must not stop the others.
    local task = redis.pcall('HMGET', key, 'msg', 'crashes', 'x', 'progress')
    if seen[id] then
      call('LREM', KEYS[3], 1, id)
    elseif task[1] then
      seen[id] = true
      call('HSET', key, 'state', 'active', 'pending_since', token)
      if task[4] then call('HDEL', key, 'progress') end
      tasks[#tasks + 1] = id
      tasks[#tasks + 1] = task[1]
      if task[2] or task[3] then
        facts[#facts + 1] = #tasks / 2
        facts[#facts + 1] = task[2] or '0'
        facts[#facts + 1] = task[3] or ''
      end
    else
      call('LREM', KEYS[3], 1, id)
      call('ZREM', KEYS[4], id)
      orphans[#orphans + 1] = id
    end
  end
end
if #orphans > 0 then
  call('SADD', KEYS[5], unpack(orphans))
  call('EXPIRE', KEYS[5], 604800)
end
return { tasks, facts }

-- Takes up to n tasks, each as asynq's dequeue does.
-- KEYS     1 pending · 2 paused · 3 active · 4 lease
-- ARGV     1 prefix of task hashes · 2 n · 3 end of the lease, seconds
-- Returns  id, msg, id, msg, ..
local function fetch(n, until_s)
  local call, prefix = redis.call, ARGV[1]
  if n == 0 or call('EXISTS', KEYS[2]) == 1 then return {} end
  local ids = call('RPOP', KEYS[1], n)
  if not ids then return {} end
  local leases, tasks = {}, {}
  for i, id in ipairs(ids) do
    leases[2 * i - 1], leases[2 * i] = until_s, id
  end
  call('LPUSH', KEYS[3], unpack(ids))
  call('ZADD', KEYS[4], unpack(leases))
  for i, id in ipairs(ids) do
    local key = prefix .. id
    call('HSET', key, 'state', 'active')
    call('HDEL', key, 'pending_since')
    tasks[2 * i - 1], tasks[2 * i] = id, call('HGET', key, 'msg')
  end
  return tasks
end

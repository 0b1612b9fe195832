-- One slice of a listing (PROTOCOL 6.1).
-- KEYS     1 pending, active, the state's zset or a group's · 2 lease · 3 x:due
-- ARGV     1 now · 2 prefix of task hashes · 3 state · 4 first · 5 last, both counted from 0, the oldest
-- Returns  now ns · how many ids were looked at; then per task: id · score ('' in a list) · lease ('' none) · exact due ms ('' none) · msg · result
--          · crashes · progress · state
local call = redis.call
local _, now_ns = clock(ARGV[1])
local state, first, last = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local found = { now_ns, 0 }

local function add(id, score)
  local task = redis.pcall('HMGET', ARGV[2] .. id, 'msg', 'result', 'crashes', 'progress', 'state')
  if task.err or not task[1] then return end
  local lease = state == 'active' and call('ZSCORE', KEYS[2], id) or ''
  local due = ''
  if state == 'scheduled' or state == 'retry' then due = call('ZSCORE', KEYS[3], string.sub(state, 1, 1) .. ':' .. id) end
  found[#found + 1] = { id, score, lease, due or '', task[1], task[2], task[3], task[4], task[5] }
end

if state == 'pending' or state == 'active' then
  local ids = call('LRANGE', KEYS[1], -last - 1, -first - 1)
  found[2] = #ids
  for i = #ids, 1, -1 do add(ids[i], '') end
else
  local ids = call('ZRANGE', KEYS[1], first, last, 'WITHSCORES')
  found[2] = #ids / 2
  for i = 1, #ids, 2 do add(ids[i], ids[i + 1]) end
end
return found

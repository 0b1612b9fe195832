-- Lists one slice of the tasks of a state or of a group.
-- KEYS     1 pending, active, the state's zset or a group's · 2 lease · 3 x:due
-- ARGV     1 now · 2 prefix of task hashes · 3 state · 4 first · 5 last, both counted from 0, the oldest
--          · 6 most bytes of each payload and result ('' all)
-- Returns  now ns · how many ids were looked at · 1 if it stopped there because the tasks are large, else 0; then per task:
--          id · score ('' in a list) · lease ('' none) · exact due ms ('' none) · msg · result · crashes · progress · state
--          · bytes of the payload, and of the result, where they were cut ('' whole) · x ('' none)
local call = redis.call
local _, now_ns = clock(ARGV[1])
local state, first, last, most = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local found, read = { now_ns, 0, 0 }, 0

-- Adds the row of a task, and returns whether there is room for more.
local function add(id, score)
  found[2] = found[2] + 1
  local task = read_task(ARGV[2] .. id)
  if not task then return true end
  local lease = state == 'active' and call('ZSCORE', KEYS[2], id) or ''
  local due = ''
  if state == 'scheduled' or state == 'retry' then due = call('ZSCORE', KEYS[3], string.sub(state, 1, 1) .. ':' .. id) end
  local row, bytes = brief_of(id, score, lease, due or '', task, most)
  found[#found + 1] = row
  read = read + bytes
  return read < MOST_READ
end

local count = 0
if state == 'pending' or state == 'active' then
  local ids = call('LRANGE', KEYS[1], -last - 1, -first - 1)
  count = #ids
  for i = #ids, 1, -1 do
    if not add(ids[i], '') then break end
  end
else
  local ids = call('ZRANGE', KEYS[1], first, last, 'WITHSCORES')
  count = #ids / 2
  for i = 1, #ids, 2 do
    if not add(ids[i], ids[i + 1]) then break end
  end
end
if found[2] < count then found[3] = 1 end
return found

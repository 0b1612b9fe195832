-- One slice of the tasks that wait in groups, over all groups (PROTOCOL 6.1).
-- KEYS     1 groups
-- ARGV     1 now · 2 prefix of the queue's keys · 3 first · 4 last, both counted from 0, the oldest
-- Returns  as list.lua
local call = redis.call
local _, now_ns = clock(ARGV[1])
local first, last = tonumber(ARGV[3]), tonumber(ARGV[4])
local all = {}
for _, group in ipairs(call('SMEMBERS', KEYS[1])) do
  -- No task of the slice lies deeper in its own group than in all of them. pcall: a key of a foreign type is no group.
  local ids = redis.pcall('ZRANGE', ARGV[2] .. 'g:' .. group, 0, last, 'WITHSCORES')
  for i = 1, #ids, 2 do all[#all + 1] = { ids[i], ids[i + 1] } end
end
table.sort(all, function(a, b)
  local x, y = tonumber(a[2]), tonumber(b[2])
  if x == y then return a[1] < b[1] end
  return x < y
end)
local found = { now_ns, 0 }
for i = first + 1, math.min(last + 1, #all) do
  found[2] = found[2] + 1
  local task = redis.pcall('HMGET', ARGV[2] .. 't:' .. all[i][1], 'msg', 'result', 'crashes', 'progress', 'state')
  if not task.err and task[1] then
    found[#found + 1] = { all[i][1], all[i][2], '', '', task[1], task[2], task[3], task[4], task[5] }
  end
end
return found

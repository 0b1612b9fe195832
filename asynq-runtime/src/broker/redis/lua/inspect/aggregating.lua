-- One slice of the tasks that wait in groups, over all groups (PROTOCOL 6.1).
-- KEYS     1 groups
-- ARGV     1 now · 2 prefix of the queue's keys · 3 first · 4 last, both counted from 0, the oldest · 5 most bytes of each
--          payload and result ('' all)
-- Returns  as list.lua
local call = redis.call
local _, now_ns = clock(ARGV[1])
local first, last, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
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
local found, read, ends = { now_ns, 0, 0 }, 0, math.min(last + 1, #all)
for i = first + 1, ends do
  found[2] = found[2] + 1
  local task = redis.pcall('HMGET', ARGV[2] .. 't:' .. all[i][1], 'msg', 'result', 'crashes', 'progress', 'state')
  if not task.err and task[1] then
    local row, bytes = brief_of(all[i][1], all[i][2], '', '', task, most)
    found[#found + 1] = row
    read = read + bytes
    if read >= MOST_READ and i < ends then
      found[3] = 1
      break
    end
  end
end
return found

-- Lists the tasks that wait in groups, group by group, in one step of a walk over the groups.
-- KEYS     1 groups
-- ARGV     1 now · 2 prefix of the queue's keys · 3 most bytes of each payload and result ('' all) · 4 where the walk is
--          · 5 tasks to pass over from there · 6 tasks wanted (at most 100)
-- Returns  where the walk goes on ('' at its end) · tasks to pass over from there · then as list.lua
local _, now_ns = clock(ARGV[1])
local most, pass, wanted = tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6])
local names, next_step = step_of(KEYS[1], ARGV[4])
local found, looked_at, read, before = { '', '', now_ns, 0, 0 }, 0, 0, 0

-- Ends the script inside of a step that has more tasks than are wanted, or more bytes than one script may read.
local function stop()
  found[1], found[2], found[4] = ARGV[4], whole(pass + looked_at), looked_at
  return found
end

for _, name in ipairs(names) do
  local key = ARGV[2] .. 'g:' .. name
  local size = size_of(key)
  -- The rank in this group from which the walk goes on.
  local first = math.max(pass - before, 0)
  if first < size then
    if looked_at == wanted then return stop() end
    local ids = redis.call('ZRANGE', key, first, first + wanted - looked_at - 1, 'WITHSCORES')
    for i = 1, #ids, 2 do
      looked_at = looked_at + 1
      local task = read_task(ARGV[2] .. 't:' .. ids[i])
      if task then
        local row, bytes = brief_of(ids[i], ids[i + 1], '', '', task, most)
        found[#found + 1] = row
        read = read + bytes
        if read >= MOST_READ then return stop() end
      end
    end
    if first + #ids / 2 < size then return stop() end
  end
  before = before + size
end
found[1], found[2], found[4] = next_step, whole(math.max(pass - before, 0)), looked_at
return found

-- Repairs one slice of active and of pending: leases that are missing or that no clock gave, ids without a task; and deadlines
-- of sets that no clock gave (docs/design/recovery.md#sweep).
-- KEYS     1 active · 2 lease · 3 pending · 4 x:orphans · 5 aggregation_sets · 6 x:absent
-- ARGV     1 now · 2 prefix of task hashes · 3 slice (at most 100) · 4 where to begin in active · 5 and in pending,
--          both counted from the tail · 6 seconds until the deadline of a set that is taken now · 7 lease seconds
-- Returns  leases restored · ghosts removed · where to go on in active · and in pending, 0 at the end
local call = redis.call
local now_s = clock(ARGV[1])
local lease_end = whole(now_s + tonumber(ARGV[7]))
local slice = tonumber(ARGV[3])
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')

-- Stands for an id without a task until it is removed. No task has an empty id.
local no_id = ''
-- Ids without a task are removed as far as this from the tail, because a removal walks from there. Deeper ones come nearer, and a
-- dequeue that meets them drops them.
local DEEPEST = 20000

-- The longest lease that a program may ask for is an hour. One that ends later was given by a clock that has been set back since.
local LONGEST_LEASE = 3660
-- A set whose deadline is so many seconds later than that of a set that is taken now was taken before the clock was set back. Go's
-- servers give deadlines by their own clocks.
local BELIEVABLE = 60

local restored, ghosts = 0, {}
local function look(list, from, repair)
  if from >= DEEPEST and not repair then return 0 end
  local ids = call('LRANGE', list, -from - slice, -from - 1)
  local gone = 0
  for i = #ids, 1, -1 do
    if call('EXISTS', ARGV[2] .. ids[i]) == 1 then
      if repair then repair(ids[i]) end
    elseif from < DEEPEST then
      -- One LREM below removes all of them: one for each id would walk to its place each time.
      call('LSET', list, i - #ids - 1 - from, no_id)
      ghosts[#ghosts + 1] = ids[i]
      gone = gone + 1
    end
  end
  -- LREM begins at the tail, near the ids: from the head it would read the whole list.
  if gone > 0 then call('LREM', list, -gone, no_id) end
  if #ids < slice then return 0 end
  return from + slice - gone
end

local next_active = look(KEYS[1], tonumber(ARGV[4]), function(id)
  local until_s = call('ZSCORE', KEYS[2], id)
  if not until_s or tonumber(until_s) > now_s + LONGEST_LEASE then
    -- A worker that lives extends the new lease before it ends. If none does, recovery decides about the task.
    call('ZADD', KEYS[2], lease_end, id)
    restored = restored + 1
  end
end)
if #ghosts > 0 then call('ZREM', KEYS[2], unpack(ghosts)) end
local next_pending = look(KEYS[3], tonumber(ARGV[5]))
note_orphans(KEYS[4], ghosts)

-- No other script notices that a set is held for longer than any is. peek: a key of a foreign type holds no sets.
local deadline = now_s + tonumber(ARGV[6])
local late = peek('ZRANGEBYSCORE', KEYS[5], '(' .. whole(deadline + BELIEVABLE), '+inf', 'LIMIT', 0, slice)
for _, set in ipairs(late) do call('ZADD', KEYS[5], whole(deadline), set) end
return { restored, #ghosts, next_active, next_pending }

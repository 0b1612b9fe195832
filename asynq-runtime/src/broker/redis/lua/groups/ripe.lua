-- Names the groups of one step of a walk that are ripe, and those that have no tasks, whose names claim.lua removes.
-- KEYS     1 groups
-- ARGV     1 now · 2 prefix of the queue's keys · 3 position of the walk · 4 grace seconds · 5 longest wait seconds ('' none)
--          · 6 size that makes a group ripe ('' none)
-- Returns  position from which the walk goes on ('' at its end) · names
local now_s = clock(ARGV[1])
local rules = rules_of(ARGV[4], ARGV[5], ARGV[6])
local names, next_step = step_of(KEYS[1], ARGV[3])
local found = { next_step }
for _, name in ipairs(names) do
  local key = ARGV[2] .. 'g:' .. name
  local waiting = size_of(key)
  -- A name without a key is left by an eviction, or by a person's DEL. A key of a foreign type is not a group.
  local is_left = waiting == 0 and redis.call('EXISTS', key) == 0
  if is_left or waiting > 0 and is_ripe(key, waiting, rules, now_s) then found[#found + 1] = name end
end
return found

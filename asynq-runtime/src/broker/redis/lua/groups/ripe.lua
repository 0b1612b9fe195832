-- Names the groups of one step of a walk that are ripe. Servers with equal rules share their walks: while the walk of one is fresh,
-- the walk of another ends where it begins.
-- KEYS     1 groups · 2 x:walked:RULES
-- ARGV     1 now · 2 prefix of the queue's keys · 3 where the walk is, '0' where it begins · 4 grace seconds
--          · 5 longest wait seconds ('' none) · 6 size that makes one ripe ('' none) · 7 ms for which a walk is fresh (0 none)
-- Returns  where the walk goes on ('' at its end) · names
-- pcall: a full memory must not stop the walk.
if ARGV[3] == '0' and ARGV[7] ~= '0' and not redis.pcall('SET', KEYS[2], '1', 'NX', 'PX', ARGV[7]) then return { '' } end
local now_s = clock(ARGV[1])
local rules = rules_of(ARGV[4], ARGV[5], ARGV[6])
local names, next_step = step_of(KEYS[1], ARGV[3])
local found = { next_step }
for _, name in ipairs(names) do
  local key = ARGV[2] .. 'g:' .. name
  local waiting = size_of(key)
  if waiting > 0 and is_ripe(key, waiting, rules, now_s) then found[#found + 1] = name end
end
return found

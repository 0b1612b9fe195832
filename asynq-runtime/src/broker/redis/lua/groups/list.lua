-- Counts the tasks that wait in each of some groups, and says since when.
-- KEYS     the groups (at most 100)
-- ARGV     none
-- Returns  per group: tasks · when the first joined, Unix seconds ('' none)
local found = {}
for _, key in ipairs(KEYS) do
  -- peek: a key of a foreign type is not a group.
  local size = peek('ZCARD', key)
  local first = type(size) == 'number' and redis.call('ZRANGE', key, 0, 0, 'WITHSCORES') or {}
  found[#found + 1] = type(size) == 'number' and size or 0
  found[#found + 1] = first[2] or ''
end
return found

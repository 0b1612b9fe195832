-- Prelude of scripts that walk over the groups of a queue: takes one step of the walk.
-- KEYS     none
-- ARGV     none; the script hands its own to step_of
-- Returns  nothing

-- Names that one step asks for. Redis may give some more, and gives the whole of a set that it keeps in one piece, which has at
-- most 512 names by default.
local PER_STEP = 200

-- Returns the names of the groups of one step, and where to go on ('' at the end). A walk begins at '0'.
local function step_of(groups, at)
  local found = redis.call('SSCAN', groups, at, 'COUNT', PER_STEP)
  table.sort(found[2])
  return found[2], found[1] == '0' and '' or found[1]
end

-- Returns how many tasks wait in a group. peek: a key of a foreign type is not a group.
local function size_of(key)
  local size = peek('ZCARD', key)
  return type(size) == 'number' and size or 0
end

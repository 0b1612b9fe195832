-- Prelude of the scripts that hold a task which moves between queues, or must leave such a task alone.
-- KEYS     none
-- ARGV     none
-- Returns  nothing

-- The last second of the year 9999: a score among the scheduled that is never due.
local never = '253402300799'

-- Returns whether a task in this state is held by a move: hold.lua or place.lua put it among the scheduled.
local function is_held(scheduled, state, id, key)
  return state == 'scheduled' and call('HEXISTS', key, 'move') == 1 and call('ZSCORE', scheduled, id) == never
end

-- Prelude of the scripts that hold a task which moves between queues, or must leave such a task alone.
-- KEYS     none
-- ARGV     none
-- Returns  nothing

-- The last second of 30 December 9999: a score among the scheduled that is never due. Go's tools write times in the zone of
-- their host, and none of the year 10000.
local never = '253402214399'

-- Returns whether a task in this state is held by a move: hold.lua or insert_moved.lua put it among the scheduled.
local function is_held(scheduled, state, id, key)
  return state == 'scheduled' and call('HEXISTS', key, 'move') == 1 and tonumber(call('ZSCORE', scheduled, id) or 0) >= tonumber(never)
end

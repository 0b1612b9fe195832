-- Prelude of the scripts that hold a task which moves between queues, or must leave such a task alone.
-- KEYS     none
-- ARGV     none
-- Returns  nothing

-- The last second of 30 December 9999: a score among the scheduled that is never due. Go's tools write times in the zone of
-- their host, and none of the year 10000.
local never = '253402214399'

-- Returns whether a task in this state is held by a move: hold.lua or insert_moved.lua put it among the scheduled. No other rule
-- says so, because versions from this one on must agree: the message and the record of a move may look otherwise in another version.
local function is_held(scheduled, state, id, key)
  local call = redis.call
  return state == 'scheduled' and call('HEXISTS', key, 'move') == 1 and tonumber(call('ZSCORE', scheduled, id) or 0) >= tonumber(never)
end

-- Returns whether a record, as peek read it, is that of the move of this name. The rest of the record is not compared: a newer
-- version may have added to it.
local function is_of_move(record, name)
  return type(record) == 'string' and proto(record, 1) == name
end

-- Prelude of scripts that take runs out of active: tells from which end a run is found soonest.
-- KEYS     none; the scripts hand their own to the function
-- ARGV     none
-- Returns  nothing

-- New runs come in at the head. Those that end are mostly among the oldest, at the tail; where many run they may as well be short ones
-- beside long ones, near the head.
local MANY, OLDEST, NEWEST = 1000, 100, 1000
local are_many

-- Returns -1 for the tail or 1 for the head, as LREM counts, and the place of the run, counted from the head, if it was looked for. The
-- number is a text: Redis would write a number out anew for each command.
local function side_of(active, id)
  if are_many == nil then are_many = redis.call('LLEN', active) > MANY end
  if not are_many then return '-1' end
  local place = redis.call('LPOS', active, id, 'RANK', '-1', 'MAXLEN', OLDEST)
  if place then return '-1', place end
  place = redis.call('LPOS', active, id, 'MAXLEN', NEWEST)
  return place and '1' or '-1', place
end

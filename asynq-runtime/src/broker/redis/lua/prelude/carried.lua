-- Prelude of the scripts that read a task which moves to another queue.
-- KEYS     none
-- ARGV     none; the scripts hand their own to the functions
-- Returns  nothing

-- The fields that belong to a place and not to the task.
local of_the_place = { state = true, msg = true, pending_since = true, last = true, unique_key = true, move = true }

-- Returns the fields of the task's hash that go along to the other queue, each before its value.
local function carried(key)
  local all, fields = redis.call('HGETALL', key), {}
  for i = 1, #all, 2 do
    if not of_the_place[all[i]] then fields[#fields + 1], fields[#fields + 2] = all[i], all[i + 1] end
  end
  return fields
end

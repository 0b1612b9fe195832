-- Prelude of scripts that end runs, behind fence.lua and runs.lua: takes the task of a run out of active.
-- KEYS     none; the scripts hand their own to the function
-- ARGV     none
-- Returns  nothing

-- Takes a task out of active for a run that ends, and returns o; nothing is changed for any other letter: e the key is not a hash
-- · w a container that the outcome needs is of a foreign type (`has_room` is false) · the letters of `refusal`.
-- A container of a foreign type would stop the script after the task has left active, where no other script would find the task.
local function leave_active(active, key, id, token, has_room, deleted)
  local held = peek('HGET', key, 'pending_since')
  if type(held) == 'table' then return 'e' end
  if held == token and not has_room then return 'w' end
  -- The token is compared first: LREM alone would take the entry of another run of the task.
  if held == token and redis.call('LREM', active, (side_of(active, id)), id) > 0 then return 'o' end
  local why = refusal(key, token, deleted)
  -- A task that is active under this token is the run's, too, where its id has gone from active: an earlier send was refused half way,
  -- or the list was deleted.
  if held == token and why == 'f' and redis.call('HGET', key, 'state') == 'active' then return 'o' end
  return why
end

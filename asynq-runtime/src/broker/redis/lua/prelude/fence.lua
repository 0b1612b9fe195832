-- Prelude of scripts that act for a run, so that all of them refuse a run that has lost its task (docs/design/fence.md).
-- KEYS     none; the scripts hand their own to the functions
-- ARGV     none
-- Returns  nothing

-- Returns o: the run of this token has the task · f: another run has it, it does not run, or the key is of a foreign
-- type · g: the task is gone.
local function held_by(key, token)
  local found = redis.pcall('HMGET', key, 'pending_since', 'state')
  if found[1] == token and found[2] == 'active' then return 'o' end
  return redis.call('EXISTS', key) == 0 and 'g' or 'f'
end

-- Returns why a run without its task cannot be ended: b it has ended before, f fenced, g gone. The script deletes the hashes of
-- `deleted` at its end: a run of one of them was sent twice, and is gone.
local function refusal(key, token, deleted)
  for i = 1, #deleted do
    if deleted[i] == key then return 'g' end
  end
  local found = redis.call('HMGET', key, 'state', 'last')
  if not found[1] and redis.call('EXISTS', key) == 0 then return 'g' end
  return found[2] == token and 'b' or 'f'
end

-- Takes a task out of active for a run that ends, with the prelude runs.lua, and returns o; nothing is changed for any other letter: e the key is not a hash
-- · w a container that the outcome needs is of a foreign type (`has_room` is false) · the letters of `refusal`.
-- A container of a foreign type would stop the script after the task has left active, where no other script would find the task.
local function leave_active(active, key, id, token, has_room, deleted)
  local held = redis.pcall('HGET', key, 'pending_since')
  if type(held) == 'table' then return 'e' end
  if held == token and not has_room then return 'w' end
  -- The token is compared first: LREM alone would take the entry of another run of the task.
  if held == token and redis.call('LREM', active, (side_of(active, id)), id) > 0 then return 'o' end
  return refusal(key, token, deleted)
end

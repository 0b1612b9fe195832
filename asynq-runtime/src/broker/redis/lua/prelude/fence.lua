-- Prelude of scripts that act for a run, so that all of them refuse a run that has lost its task (docs/design/fence.md).
-- KEYS     none; the scripts hand their own to the functions
-- ARGV     none
-- Returns  nothing

-- Returns o: the run of this token has the task · f: another run has it, it does not run, or the key is of a foreign
-- type · g: the task is gone.
local function held_by(key, token)
  local found = peek('HMGET', key, 'pending_since', 'state')
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

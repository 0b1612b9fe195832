-- Moves a task to another queue in one step, where one Redis has both queues (contract Repair::move_task). hold, insert_moved, drop and
-- release are the scripts of these names, as functions: where one of them fails, the task is left as that script leaves it.
-- KEYS     those of the four scripts in turn
-- ARGV     of the four scripts in turn: how many keys and how many arguments it has, and the arguments; of insert_moved only the
--          fields that differ in the new queue
-- Returns  done · changed (it is not as it was read) · held (it cannot be placed in the new queue)
local next_key, next_argument = 1, 1

-- Runs the next script, with more arguments behind its own.
local function run(script, more)
  local keys, arguments = tonumber(ARGV[next_argument]), tonumber(ARGV[next_argument + 1])
  local own_keys = { unpack(KEYS, next_key, next_key + keys - 1) }
  local own = { unpack(ARGV, next_argument + 2, next_argument + 1 + arguments) }
  for _, argument in ipairs(more or {}) do own[#own + 1] = argument end
  next_key, next_argument = next_key + keys, next_argument + 2 + arguments
  return script(own_keys, own)
end

if run(hold) ~= 'done' then return 'changed' end
-- The other fields are read here, because a run may have written some since the task was looked at.
if run(insert_moved, carried(KEYS[11]))[1] ~= 'done' then return 'held' end
run(drop)
run(release)
return 'done'

-- Prelude of every script: asks about keys that may be of a foreign type.
-- KEYS     none
-- ARGV     none; the scripts hand their own to the functions
-- Returns  nothing

-- Returns whether an answer is the error for a key of a foreign type. Every other error, such as that of a right that is missing
-- (ERR or NOPERM), says nothing of the key: a script that takes it for "there is no such task" loses the task.
local function is_foreign(answer)
  return type(answer) == 'table' and answer.err and string.sub(answer.err, 1, 9) == 'WRONGTYPE'
end

-- Returns what a command that reads answers, the error for a key of a foreign type as well. Any other error ends the script.
local function peek(...)
  local answer = redis.pcall(...)
  -- The same command fails again, and this time its error is the answer of the script, whatever the version of Redis.
  if type(answer) == 'table' and answer.err and not is_foreign(answer) then return redis.call(...) end
  return answer
end

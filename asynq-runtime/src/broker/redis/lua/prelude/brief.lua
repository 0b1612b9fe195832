-- Prelude of listings, behind crashes.lua: limits the bytes of a task that they send, and the bytes that one script reads.
-- KEYS     none
-- ARGV     none; the listing hands its own to brief_of
-- Returns  nothing

-- A script stops after so many bytes of tasks: Redis reads a field as a whole, however little of it is sent, and a longer script
-- would keep all other clients waiting.
local MOST_READ = 1048576

-- Returns a message with the first `most` bytes of its payload (field 2 of asynq's TaskMessage), and the length of the whole
-- payload, '' if nothing was left out. Bytes that are not a message stay as they are.
local function cut_message(msg, most)
  local at = 1
  while at <= #msg do
    local tag, length, from, ends = read_field(msg, at)
    if not tag then return msg, '' end
    if tag == 18 and length > most then
      local kept = string.sub(msg, 1, at - 1) .. string.char(18) .. write_varint(most)
      return kept .. string.sub(msg, from, from + most - 1) .. string.sub(msg, ends), length
    end
    at = ends
  end
  return msg, ''
end

-- Returns what brief_of takes of a task, nil if there is none. peek: a key of a foreign type is not a task.
local function read_task(key)
  local task = peek('HMGET', key, 'msg', 'result', 'crashes', 'progress', 'state', 'x', 'crashes_retried',
    'pending_since')
  return not task.err and task[1] and task or nil
end

-- Returns one row of a listing, with at most `most` bytes (nil: all) of payload and result, and how many bytes were read for it.
local function brief_of(id, score, lease, due, task, most)
  local msg, result = task[1], task[2]
  local size, result_size = '', ''
  -- Go's success leaves the count where it is, and Go's dequeue the progress of an earlier run. A run of Go has no token.
  local crashes = task[5] ~= 'completed' and task[3] and whole(crashes_of(nil, msg, task[3], task[7]))
  local progress = task[5] == 'active' and task[8] and task[4]
  local read = #msg + (result and #result or 0)
  if most and #msg > most then msg, size = cut_message(msg, most) end
  if most and result and #result > most then
    result, result_size = string.sub(result, 1, most), #result
  end
  return { id, score, lease, due, msg, result, crashes, progress, task[5], size, result_size, task[6] }, read
end

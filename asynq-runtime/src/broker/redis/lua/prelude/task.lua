-- Prelude of scripts that end or change tasks: reads messages, frees locks and keeps failures.
-- KEYS     none
-- ARGV     none; the scripts hand their own to the functions
-- Returns  nothing

-- Returns the number at `at`, a base 128 varint, and where it ends; nil if the bytes end before it does.
local function read_varint(bytes, at)
  local value, scale = 0, 1
  for _ = 1, 10 do
    local byte = string.byte(bytes, at)
    if not byte then return nil, at end
    at = at + 1
    value = value + byte % 128 * scale
    if byte < 128 then return value, at end
    scale = scale * 128
  end
  return nil, at
end

-- Returns a number as a base 128 varint.
local function write_varint(number)
  local bytes = {}
  repeat
    local low = number % 128
    number = (number - low) / 128
    bytes[#bytes + 1] = string.char(number > 0 and low + 128 or low)
  until number == 0
  return table.concat(bytes)
end

-- Returns of the field at `at` its tag, its number or its length, and where its bytes begin and end; nil if the bytes are not a message.
local function read_field(bytes, at)
  local tag, from = read_varint(bytes, at)
  local kind, number, ends = tag and tag % 8, nil, nil
  if kind == 0 then
    number, ends = read_varint(bytes, from)
    if not number then return nil end
  elseif kind == 2 then
    number, from = read_varint(bytes, from)
    ends = number and from + number
    if not ends or ends - 1 > #bytes then return nil end
  elseif kind == 1 or kind == 5 then
    ends = from + (kind == 1 and 8 or 4)
  else
    return nil
  end
  return tag, number, from, ends
end

-- Returns a field of a protobuf message, a number or text; nil if there is none, or if the bytes are not a message.
local function proto(bytes, field)
  local at, found = 1, nil
  while at <= #bytes do
    local tag, number, from, ends = read_field(bytes, at)
    if not tag then return nil end
    if math.floor(tag / 8) == field then found = tag % 8 == 2 and string.sub(bytes, from, ends - 1) or number end
    at = ends
  end
  return found
end

-- Returns a field of a protobuf message that is a number; 0 if there is none.
local function proto_number(bytes, field)
  local found = proto(bytes, field)
  return type(found) == 'number' and found or 0
end

-- Returns the mark that a later tick or enqueue replaced the task while it ran, for the end of the message in x. Field 7 is always 1,
-- with which programs of earlier versions compare it. Field 12 is the Unix second at which the task completed before, 0 if it did
-- not: a Go tool that runs a completed task again leaves the mark of the run before.
local function replaced_mark(msg)
  return '\56\1\96' .. write_varint(proto_number(msg, 13))
end

-- Returns whether x has such a mark that was made since the task completed, if it ever did. The mark of an earlier version has no field
-- 12, and counts where the task never completed.
local function replaced(x, msg)
  return proto_number(x, 7) ~= 0 and proto_number(x, 12) == proto_number(msg, 13)
end

-- Frees a unique lock where the task holds it (callers: docs/design/fence.md#unique-locks). A wrong key must not stop a script half
-- way, therefore pcall. A key outside the queue is not a lock of its tasks; the first key of each caller is one of the queue.
local function unlock(lock, id)
  if not lock or lock == '' then return end
  local own = string.match(KEYS[1], '^asynq:{.-}:')
  if not own or string.sub(lock, 1, #own) ~= own then return end
  if redis.pcall('GET', lock) == id then redis.call('DEL', lock) end
end

-- Frees the lock of a task that was given up, unless its extra facts keep it until success (task/extra.rs: field 4 is 2
-- until its start, 1 until success).
local function unlock_archived(lock, id, x)
  if not (x and proto(x, 4) == 1) then unlock(lock, id) end
end

-- Bytes that are kept of an error text that is not its task's newest any more.
local OLDER = 256

-- Cuts the text of a failure that is stored as NUMBER MS TEXT, between two characters of UTF-8.
local function shorten(key, field)
  local failure = redis.call('HGET', key, field)
  local head, text = string.match(failure or '', '^(%d+ %d+ )(.*)$')
  if not head or #text <= OLDER then return end
  local last = OLDER
  while last > 0 and math.floor(string.byte(text, last + 1) / 64) == 2 do last = last - 1 end
  redis.call('HSET', key, field, head .. string.sub(text, 1, last))
end

-- Keeps the failure of an attempt beside the task, as one of its last ten: the fields are used in turn (contract
-- Inspect::failures). Only the text of the newest is whole.
-- The attempt is one more than those known so far, including the attempts that a Go worker counted in the message.
local function remember_failure(key, msg, counted, now_ms)
  local known = tonumber(redis.call('HGET', key, 'fails') or 0) or 0
  local retried = proto(msg, 6)
  if type(retried) ~= 'number' or retried > 2147483647 then retried = 0 end
  local number = whole(math.max(known + 1, retried + (counted and 0 or 1)))
  local error = proto(msg, 7)
  if known > 0 then shorten(key, 'e' .. string.sub(whole(known), -1)) end
  redis.call('HSET', key, 'fails', number, 'e' .. string.sub(number, -1),
    number .. ' ' .. whole(now_ms) .. ' ' .. (type(error) == 'string' and error or ''))
end

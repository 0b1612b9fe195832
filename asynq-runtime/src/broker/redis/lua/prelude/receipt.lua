-- Prelude of the scripts that enqueue: the receipt of a send, by which a repeat gives the same answers and stores nothing twice.
-- KEYS     none
-- ARGV     none; the scripts hand their own to the functions
-- Returns  nothing

-- Returns what the send with this text in front of its answers answered before, or nil.
local function answered(key, sent, seconds)
  local receipt = redis.call('GET', key)
  if not receipt or string.sub(receipt, 1, #sent) ~= sent then return nil end
  -- A repeat comes on another connection than the send that stored the tasks, and from Redis 7.2 on WAIT and WAITAOF
  -- wait only for the writes of their own connection. This write is behind those of that send, and memory limits allow it.
  redis.call('EXPIRE', key, seconds)
  return cjson.decode(string.sub(receipt, #sent + 1))
end

-- Leaves the receipt. Where nothing was stored, nothing can be stored twice. The tasks that an earlier send has stored get a
-- receipt again, which is also the write that WAIT waits for.
local function leave_receipt(key, sent, seconds, answers, has_stored, is_known)
  if has_stored then
    redis.call('SET', key, sent .. cjson.encode(answers), 'EX', seconds)
  elseif is_known then
    -- A Redis whose memory is full must not refuse tasks that it has: this write it allows.
    redis.call('DEL', key)
    redis.pcall('SET', key, sent .. cjson.encode(answers), 'EX', seconds)
  end
end

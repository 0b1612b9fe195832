-- Prelude of scripts that give tasks a time: notes exact times.
-- KEYS     none
-- ARGV     none; the scripts hand their own to note_due
-- Returns  nothing

-- Milliseconds. Our forwarder removes a member within moments; a member that is past by more may be left over by a Go server.
local PAST = 2000
-- Milliseconds that the key is kept after its latest time.
local KEPT = 86400000

-- Returns those members whose tasks do not wait for that time any more. `prefix` is the prefix of the queue's keys.
local function left_over(members, prefix)
  local zsets, gone = { s = prefix .. 'scheduled', r = prefix .. 'retry' }, {}
  for i = 1, #members, 2 do
    local zset, id = zsets[string.sub(members[i], 1, 1)], string.sub(members[i], 3)
    -- pcall: the caller has stored tasks already. A member whose score cannot be read stays.
    local score = zset and redis.pcall('ZSCORE', zset, id)
    if type(score) ~= 'table' and tonumber(score or -1) ~= math.ceil(tonumber(members[i + 1]) / 1000) then
      gone[#gone + 1] = members[i]
    end
  end
  return gone
end

-- Notes times: milliseconds and member in turn. A call that adds some takes up to twice as many away that Go servers, which
-- forward tasks, have left here; and the key ends by itself.
local function note_due(key, times, now_ms)
  redis.call('ZADD', key, unpack(times))
  local past = redis.call('ZRANGEBYSCORE', key, '-inf', whole(now_ms - PAST), 'WITHSCORES', 'LIMIT', 0, #times)
  local gone = #past > 0 and left_over(past, string.sub(key, 1, -1 - #'x:due')) or past
  if #gone > 0 then redis.call('ZREM', key, unpack(gone)) end
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  -- Redis refuses a time to live that it cannot count.
  if last then redis.call('PEXPIRE', key, whole(math.min(math.max(tonumber(last) - now_ms, 0) + KEPT, 1e15))) end
end

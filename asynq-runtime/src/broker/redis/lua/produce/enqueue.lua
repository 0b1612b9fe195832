-- Stores up to 64 new tasks of one queue (PROTOCOL 5.1-5.3; F8, F9, F19a).
-- KEYS     1 pending · 2 scheduled · 3 x:due · 4 x:sent:.. (receipt of this sender's slot) · 5.. one task hash per item,
--          then the unique locks
-- ARGV     1 now · 2 items · 3 number of this send · 4 sent before? 0|1; then per item:
--          id · msg · when ('' now, '@ms' instant, '+ms' delay) · lock (index in KEYS, 0 none) · lock seconds · x ('' none)
--          · id made by us? 0|1
-- Returns  two texts per item: p|s and due ms (stored) · c and '' (id taken) · d and the lock's holder (duplicate)
local call = redis.call
local now_s, now_ns, now_ms = clock(ARGV[1])
local n, sent, again = tonumber(ARGV[2]), ARGV[3] .. ' ', ARGV[4] == '1'

if again then
  local receipt = call('GET', KEYS[4])
  if receipt and string.sub(receipt, 1, #sent) == sent then
    return cmsgpack.unpack(string.sub(receipt, #sent + 1))
  end
end

-- Our own first send whose receipt is gone (failover): same id and message.
local function first_send(key, id, msg, ours)
  if not again or not (ours or call('HGET', key, 'msg') == msg) then return nil end
  local due = call('ZSCORE', KEYS[3], 's:' .. id)
  if due and call('HGET', key, 'state') == 'scheduled' then return 's', due end
  return 'p', whole(now_ms)
end

local function take_lock(key, id, seconds)
  if call('SET', key, id, 'NX', 'EX', whole(seconds)) then return true end
  local holder = redis.pcall('GET', key)
  if holder == id then
    -- No task of this id exists, so this lock is what an earlier one left behind.
    call('EXPIRE', key, whole(seconds))
    return true
  end
  return false, type(holder) == 'string' and holder or ''
end

local answers, accepted, seen = {}, {}, {}
local pending, scheduled, exact = {}, {}, {}
local taken = call('EXISTS', unpack(KEYS, 5, 4 + n)) > 0
for i = 1, n do
  local p = 7 * i - 2
  local id, when, lock = ARGV[p], ARGV[p + 2], tonumber(ARGV[p + 3])
  local due, kind = now_ms, string.sub(when, 1, 1)
  if kind == '@' then
    due = tonumber(string.sub(when, 2))
  elseif kind == '+' then
    due = now_ms + tonumber(string.sub(when, 2))
  end
  local waits = due > now_ms
  local code, detail
  if seen[id] then
    code, detail = 'c', ''
  elseif taken and call('EXISTS', KEYS[4 + i]) == 1 then
    code, detail = first_send(KEYS[4 + i], id, ARGV[p + 1], ARGV[p + 6] == '1')
    if not code then code, detail = 'c', '' end
  else
    local free, holder = true, nil
    if lock > 0 then
      local seconds = tonumber(ARGV[p + 4])
      -- An instant comes rounded up and now is rounded down: a millisecond between them may be none.
      if waits then seconds = seconds + math.ceil((due - 1 - now_ms) / 1000) end
      free, holder = take_lock(KEYS[lock], id, seconds)
    end
    if not free then
      code, detail = 'd', holder
    else
      seen[id] = true
      accepted[#accepted + 1] = i
      if waits then
        code, detail = 's', whole(due)
        scheduled[#scheduled + 1] = whole(math.ceil(due / 1000))
        scheduled[#scheduled + 1] = id
        exact[#exact + 1] = whole(due)
        exact[#exact + 1] = 's:' .. id
      else
        code, detail = 'p', whole(now_ms)
        pending[#pending + 1] = id
      end
    end
  end
  answers[2 * i - 1], answers[2 * i] = code, detail
end

-- The containers first: if one is of a wrong type, no hash is left behind that nobody would ever find.
if #pending > 0 then call('LPUSH', KEYS[1], unpack(pending)) end
if #scheduled > 0 then
  call('ZADD', KEYS[2], unpack(scheduled))
  call('ZADD', KEYS[3], unpack(exact))
end
for _, i in ipairs(accepted) do
  local p = 7 * i - 2
  local fields = { 'msg', ARGV[p + 1], 'state', 'pending', 'pending_since', now_ns }
  if answers[2 * i - 1] == 's' then fields = { 'msg', ARGV[p + 1], 'state', 'scheduled' } end
  local lock = tonumber(ARGV[p + 3])
  if lock > 0 then
    fields[#fields + 1] = 'unique_key'
    fields[#fields + 1] = KEYS[lock]
  end
  if ARGV[p + 5] ~= '' then
    fields[#fields + 1] = 'x'
    fields[#fields + 1] = ARGV[p + 5]
  end
  call('HSET', KEYS[4 + i], unpack(fields))
end
-- Where nothing was stored, nothing can be stored twice.
if #accepted > 0 then call('SET', KEYS[4], sent .. cmsgpack.pack(answers), 'EX', 60) end
return answers

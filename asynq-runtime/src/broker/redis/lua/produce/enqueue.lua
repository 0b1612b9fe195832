-- Stores up to 64 new tasks of one queue (PROTOCOL 5.1-5.4; F8, F9, F18, F19a).
-- KEYS     1 pending · 2 scheduled · 3 x:due · 4 x:sent:.. (receipt of this sender's slot) · 5 groups · 6.. one task hash
--          per item, then the unique locks, then the groups
-- ARGV     1 now · 2 items · 3 number of this send · 4 sent before? 0|1 · 5 prefix of groups; then per item:
--          id · msg · when ('' now, '@ms' instant, '+ms' delay) · lock (index in KEYS, 0 none) · lock seconds · x ('' none)
--          · id made by us? 0|1 · group ('' none)
-- Returns  two texts per item: p|s|g and due ms (stored) · c and '' (id taken) · d and the lock's holder (duplicate)
--          · w and '' (its group or groups is of a foreign type)
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
  local task = again and redis.pcall('HMGET', key, 'msg', 'state')
  if not task or task.err or not (ours or task[1] == msg) then return nil end
  local due = call('ZSCORE', KEYS[3], 's:' .. id)
  if due and task[2] == 'scheduled' then return 's', due end
  return task[2] == 'aggregating' and 'g' or 'p', whole(now_ms)
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

-- These change nothing; what is of a foreign type stops the script here, before a lock is taken that no task would have.
if #KEYS > 5 + n then
  call('LLEN', KEYS[1])
  for i = 2, 3 do call('ZCARD', KEYS[i]) end
end

local answers, accepted, seen = {}, {}, {}
local pending, scheduled, exact, grouped = {}, {}, {}, {}
local taken = call('EXISTS', unpack(KEYS, 6, 5 + n)) > 0
for i = 1, n do
  local p = 8 * i - 2
  local id, lock, group = ARGV[p], tonumber(ARGV[p + 3]), ARGV[p + 7]
  local due = due_at(ARGV[p + 2], now_ms)
  local waits = due > now_ms
  local code, detail
  if seen[id] then
    code, detail = 'c', ''
  elseif taken and call('EXISTS', KEYS[5 + i]) == 1 then
    code, detail = first_send(KEYS[5 + i], id, ARGV[p + 1], ARGV[p + 6] == '1')
    if not code then code, detail = 'c', '' end
  -- Only this task is refused, not its neighbours.
  elseif group ~= '' and not (fits(KEYS[5], 'set') and fits(ARGV[5] .. group, 'zset')) then
    code, detail = 'w', ''
  else
    local free, holder = true, nil
    if lock > 0 then free, holder = take_lock(KEYS[lock], id, held_for(tonumber(ARGV[p + 4]), due, now_ms)) end
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
      elseif group ~= '' then
        code, detail = 'g', whole(now_ms)
        grouped[#grouped + 1] = { group, id }
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
for _, member in ipairs(grouped) do
  call('ZADD', ARGV[5] .. member[1], whole(now_s), member[2])
  call('SADD', KEYS[5], member[1])
end
local states = { p = 'pending', s = 'scheduled', g = 'aggregating' }
for _, i in ipairs(accepted) do
  local p = 8 * i - 2
  local lock = KEYS[tonumber(ARGV[p + 3])] or ''
  local state = states[answers[2 * i - 1]]
  call('HSET', KEYS[5 + i], unpack(new_fields(ARGV[p + 1], state, now_ns, ARGV[p + 7], lock, ARGV[p + 5])))
end
-- Where nothing was stored, nothing can be stored twice.
if #accepted > 0 then call('SET', KEYS[4], sent .. cmsgpack.pack(answers), 'EX', 60) end
return answers

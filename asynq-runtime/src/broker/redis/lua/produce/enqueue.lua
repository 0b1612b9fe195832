-- Stores up to 64 new tasks of one queue (docs/design/wire.md#enqueue).
-- KEYS     1 pending · 2 scheduled · 3 x:due · 4 x:sent:.. (receipt of this sender's slot) · 5 groups · 6.. one task hash
--          per item, then the unique locks, then the groups, then x:msg:.. of the items with long messages
-- ARGV     1 now · 2 items · 3 number of this send · 4 sent before? 0|1 · 5 prefix of groups
--          · 6 index in KEYS of the first x:msg:.. · 7 seconds that the receipt is kept; then per item:
--          id · msg · 1 if there is more to the task than that it runs now and has an id of our making, + 2 if its message is
--          long and lies in the next x:msg:..; and if there is more,
--          when ('' now, '@ms' instant, '+ms' delay) · lock (index in KEYS, 0 none) · lock seconds · x ('' none)
--          · id made by us? 0|1 · group ('' none)
-- Returns  one letter per item · now in ms, which is when p and g are due · then one text for each s and d:
--          p pending · g in its group · s scheduled: due ms · d duplicate: the lock's holder · c id taken
--          · w its group or groups is of a foreign type
--          TRYAGAIN: a long message is not there; nothing was stored
local call, KEYS, ARGV = redis.call, KEYS, ARGV
local now_s, now_ns, now_ms = clock(ARGV[1])
local n, sent, again = tonumber(ARGV[2]), ARGV[3] .. ' ', ARGV[4] == '1'

local before = again and answered(KEYS[4], sent, ARGV[7])
if before then return before end

-- Takes a lock; returns its holder if another task has it.
local function take_lock(key, id, seconds, stored)
  if call('SET', key, id, 'NX', 'EX', whole(seconds)) then return end
  local holder = holder_of(key, string.sub(KEYS[1], 1, -1 - #'pending'), stored)
  if holder then return holder end
  -- An earlier task left this lock behind: one of this id, or one that is gone.
  call('SET', key, id, 'EX', whole(seconds))
end

local first_long = tonumber(ARGV[6])
-- Deletes the long messages that are not stored, and returns why.
local function drop_long(why)
  if first_long <= #KEYS then redis.pcall('UNLINK', unpack(KEYS, first_long)) end
  return why
end

for i = first_long, #KEYS do
  if call('HSTRLEN', KEYS[i], 'msg') == 0 then return drop_long(redis.error_reply('TRYAGAIN a long message did not come')) end
end
if first_long <= #KEYS then
  -- This HSET changes nothing, and is refused when memory is full.
  local is_room = redis.pcall('HSET', KEYS[first_long], 'state', 'pending')
  if type(is_room) == 'table' then return drop_long(is_room) end
end
-- A container of a foreign type stops the script here, before a lock is taken that no task would have, or an id is in pending whose
-- hash does not come. A batch in which each task runs now, with nothing more to it, has one container, and stops at its first write.
if #KEYS > 5 + n or #ARGV > 7 + 3 * n then
  for i, wanted in ipairs({ 'list', 'zset', 'zset' }) do
    if not fits(KEYS[i], wanted) then return drop_long(redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is not a ' .. wanted)) end
  end
end

-- Tasks to store are collected first, and written in the end: at[i] is where item i begins in ARGV, long[i] the key that has its
-- message.
local letters, answers, seen, at, long, next_long = {}, { '', whole(now_ms) }, {}, {}, {}, first_long
local pending, scheduled, exact, grouped, is_known = {}, {}, {}, {}, false
local taken = call('EXISTS', unpack(KEYS, 6, 5 + n)) > 0
local p = 8
for i = 1, n do
  local id, kind, letter, detail = ARGV[p], tonumber(ARGV[p + 2]), nil, nil
  local more = kind % 2 == 1
  if kind > 1 then long[i], next_long = KEYS[next_long], next_long + 1 end
  if seen[id] then
    letter = 'c'
  elseif taken and call('EXISTS', KEYS[5 + i]) == 1 then
    letter, detail = first_send(again, KEYS[3], KEYS[5 + i], id, ARGV[p + 1], not more or ARGV[p + 7] == '1')
    is_known = is_known or letter ~= 'c'
  elseif not more then
    letter, at[i], seen[id] = 'p', p, true
    pending[#pending + 1] = id
  else
    local lock, group, holder = tonumber(ARGV[p + 4]), ARGV[p + 8], nil
    local due = due_at(ARGV[p + 3], now_ms)
    -- Only this task is refused, not its neighbours.
    local may_join = group == '' or fits(KEYS[5], 'set') and fits(ARGV[5] .. group, 'zset')
    if may_join and lock > 0 then
      holder = take_lock(KEYS[lock], id, held_for(tonumber(ARGV[p + 5]), due, now_ms), seen)
    end
    if not may_join then
      letter = 'w'
    elseif holder then
      letter, detail = 'd', holder
    else
      at[i], seen[id] = p, true
      if due > now_ms then
        letter, detail = 's', whole(due)
        scheduled[#scheduled + 1] = whole(math.ceil(due / 1000))
        scheduled[#scheduled + 1] = id
        exact[#exact + 1] = detail
        exact[#exact + 1] = 's:' .. id
      elseif group ~= '' then
        letter = 'g'
        grouped[#grouped + 1] = { group, id }
      else
        letter = 'p'
        pending[#pending + 1] = id
      end
    end
  end
  letters[i] = letter
  if detail then answers[#answers + 1] = detail end
  p = p + (more and 9 or 3)
end
answers[1] = table.concat(letters)

-- The long messages come first: if a login may not rename keys, nothing has been stored, and the long messages still expire.
local renamed = 0
for i = 1, n do
  if at[i] and long[i] then
    call('RENAME', long[i], KEYS[5 + i])
    call('PERSIST', KEYS[5 + i])
    renamed = renamed + 1
  end
end
-- The containers come before the hashes: if one is of a wrong type, no hash is left behind that no script would ever find.
if #pending > 0 then call('LPUSH', KEYS[1], unpack(pending)) end
if #scheduled > 0 then
  call('ZADD', KEYS[2], unpack(scheduled))
  note_due(KEYS[3], exact, now_ms)
end
for _, member in ipairs(grouped) do
  call('ZADD', ARGV[5] .. member[1], whole(now_s), member[2])
  call('SADD', KEYS[5], member[1])
end
local states = { p = 'pending', s = 'scheduled', g = 'aggregating' }
for i = 1, n do
  p = at[i]
  if p and ARGV[p + 2] == '0' then
    call('HSET', KEYS[5 + i], 'msg', ARGV[p + 1], 'state', 'pending', 'pending_since', now_ns)
  elseif p then
    local lock, group, x = '', '', ''
    if ARGV[p + 2] ~= '2' then lock, group, x = KEYS[tonumber(ARGV[p + 4])] or '', ARGV[p + 8], ARGV[p + 6] end
    call('HSET', KEYS[5 + i], unpack(new_fields(ARGV[p + 1], states[letters[i]], now_ns, group, lock, x)))
  end
end
if first_long + renamed <= #KEYS then drop_long() end
leave_receipt(KEYS[4], sent, ARGV[7], answers, next(at), is_known)
return answers

-- Estimates how many bytes a queue takes, as asynq does.
-- KEYS     1 pending · 2 active · 3 scheduled · 4 retry · 5 archived · 6 completed · 7 groups
-- ARGV     1 prefix of the queue's keys · 2 samples per state (20) · 3 groups that are sampled (5)
-- Returns  bytes
local call = redis.call
local samples = tonumber(ARGV[2])
local bytes = 0

local function size(key)
  local found = redis.pcall('MEMORY', 'USAGE', key)
  return type(found) == 'number' and found or 0
end

local function add_up(ids)
  local sum = 0
  for _, id in ipairs(ids) do sum = sum + size(ARGV[1] .. 't:' .. id) end
  return sum
end

for i = 1, 6 do
  local list = i <= 2
  local length = call(list and 'LLEN' or 'ZCARD', KEYS[i])
  if length > 0 then
    local ids = call(list and 'LRANGE' or 'ZRANGE', KEYS[i], 0, samples - 1)
    bytes = bytes + add_up(ids) / #ids * length + size(KEYS[i])
  end
end

-- In a queue with very many groups, the groups of one step stand for all.
local names, next_step = step_of(KEYS[7], '0')
local waiting, sampled, sum = 0, 0, 0
for i, group in ipairs(names) do
  local key = ARGV[1] .. 'g:' .. group
  local length = size_of(key)
  waiting = waiting + length
  if length > 0 and i <= tonumber(ARGV[3]) then
    local ids = call('ZRANGE', key, 0, samples - 1)
    sampled, sum = sampled + #ids, sum + add_up(ids)
  end
end
if next_step ~= '' and #names > 0 then waiting = waiting / #names * call('SCARD', KEYS[7]) end
if sampled > 0 then bytes = bytes + sum / sampled * waiting end
return whole(math.floor(bytes))

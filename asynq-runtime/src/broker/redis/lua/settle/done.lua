-- Begins every settle: ends the plain successes at its beginning, which is all there is in most batches. What comes after it in
-- the script is not even set up then.
-- KEYS, ARGV, Returns  as settle.lua
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local letters, ended, deleted, processed, failed = {}, {}, {}, 0, 0
local p, item = 3, 0
-- A container of a foreign type would stop the script after the task has left active, and then nobody would find it: so
-- such outcomes are not begun.
local has_lease = fits(KEYS[2], 'zset')

-- Why a run cannot be ended that is not the holder's.
local function refusal(key, token)
  for i = 1, #deleted do
    -- Sent twice in this batch; the hash goes at the end.
    if deleted[i] == key then return 'g' end
  end
  local found = call('HMGET', key, 'state', 'last')
  if not found[1] and call('EXISTS', key) == 0 then return 'g' end
  return found[2] == token and 'b' or 'f'
end

while ARGV[p] == 'D' do
  local many, token = tonumber(ARGV[p + 1]), ARGV[p + 2]
  for i = 1, many do
    local id, key = ARGV[p + 2 + i], KEYS[11 + item + i]
    local held = pcall('HGET', key, 'pending_since')
    local letter = 'o'
    if type(held) == 'table' then
      letter = 'e'
    elseif held == token and not has_lease then
      letter = 'w'
    -- The fence, in this order: LREM first would take the entry of another's run of the task.
    elseif held == token and call('LREM', KEYS[1], '-1', id) > 0 then
      processed = processed + 1
      ended[processed], deleted[processed] = id, key
    else
      letter = refusal(key, token)
    end
    letters[item + i] = letter
  end
  p, item = p + 3 + many, item + many
end
if p > #ARGV then
  if processed > 0 then
    call('ZREM', KEYS[2], unpack(ended))
    call('DEL', unpack(deleted))
    count_runs({ KEYS[8], KEYS[9], KEYS[10], KEYS[11] }, processed, failed, ARGV[2])
  end
  return table.concat(letters)
end

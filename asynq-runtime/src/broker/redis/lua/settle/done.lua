-- Ends up to 64 runs of one queue that are done and have no lock, each only if the run still holds its task
-- (docs/design/fence.md#settle). Most batches have nothing else to settle.
-- KEYS     1 active · 2 lease · 3 processed:DATE · 4 processed · 5.. one task hash per run
-- ARGV     1 when the counters of the day expire, Unix seconds; then, any number of times, several runs of one token:
--          how many · token · their ids
-- Returns  one letter per run: o done · b this run has ended before · f fenced · g gone · e the key is not a hash
--          · w lease is of a foreign type, nothing was changed
local call, KEYS, ARGV = redis.call, KEYS, ARGV
local letters, ended, deleted = {}, {}, {}
local p, run = 2, 0
local has_lease = fits(KEYS[2], 'zset')

while p <= #ARGV do
  local many, token = tonumber(ARGV[p]), ARGV[p + 1]
  for i = 1, many do
    local id, key = ARGV[p + 1 + i], KEYS[4 + run + i]
    local letter = leave_active(KEYS[1], key, id, token, has_lease, deleted)
    if letter == 'o' then ended[#ended + 1], deleted[#deleted + 1] = id, key end
    letters[run + i] = letter
  end
  p, run = p + 2 + many, run + many
end

if #ended > 0 then
  -- Redis may refuse a command that its user may not call, and rolls nothing back: a task without a lease would be lost, a lease
  -- without a task is removed by recovery.
  call('DEL', unpack(deleted))
  call('ZREM', KEYS[2], unpack(ended))
  count(KEYS[3], KEYS[4], #ended, ARGV[1])
end
return table.concat(letters)

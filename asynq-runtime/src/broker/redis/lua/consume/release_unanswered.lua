-- Requeues the tasks of a dequeue whose answer was lost at the head of pending. None of them began, so their crash counts
-- stay.
-- KEYS     1 active · 2 lease · 3 pending · 4 x:absent
-- ARGV     1 now · 2 prefix of task hashes · 3 run token; then the ids that came all the same
-- Returns  the ids, in the order in which they were taken
local _, now_ns = clock(ARGV[1])
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')
-- These calls change nothing either: a list of a foreign type stops the script here, before a task has left active.
call('LLEN', KEYS[1])
call('LLEN', KEYS[3])

local back = {}
-- The task that was taken first goes last, where the next dequeue takes it first.
for _, id in ipairs(unanswered(ARGV[2], ARGV[3], 4)) do
  local key = ARGV[2] .. id
  if call('HGET', key, 'state') == 'active' then
    call('LREM', KEYS[1], 1, id)
    call('ZREM', KEYS[2], id)
    call('HSET', key, 'state', 'pending', 'pending_since', now_ns)
    call('RPUSH', KEYS[3], id)
    table.insert(back, 1, id)
  end
end
return back

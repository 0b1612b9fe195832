-- Requeues the tasks of a dequeue whose answer was lost at the head of pending. None of them began, so their crash counts
-- stay.
-- KEYS     1 active · 2 lease · 3 pending · 4 x:absent
-- ARGV     1 now · 2 prefix of task hashes · 3 run token · 4 where an earlier call says to go on ('' none)
-- Returns  the ids, in the order in which they were taken; or a number, where the next call goes on to look for them
local _, now_ns = clock(ARGV[1])
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')
-- These calls change nothing either: a list of a foreign type stops the script here, before a task has left active.
call('LLEN', KEYS[1])
call('LLEN', KEYS[3])

local tasks, places, go_on = unanswered(ARGV[2], ARGV[3], ARGV[4])
if go_on then return go_on end

-- Stands for a task in active until it is removed. No task has an empty id.
local no_id = ''

local back = {}
-- The task that was taken first goes last, where the next dequeue takes it first.
for i, id in ipairs(tasks) do
  local key = ARGV[2] .. id
  if call('HGET', key, 'state') == 'active' then
    -- One LREM below removes all of them: one for each task would walk to its place each time.
    call('LSET', KEYS[1], places[i], no_id)
    call('ZREM', KEYS[2], id)
    call('HSET', key, 'state', 'pending', 'pending_since', now_ns)
    call('RPUSH', KEYS[3], id)
    table.insert(back, 1, id)
  end
end
if #back > 0 then call('LREM', KEYS[1], #back, no_id) end
return back

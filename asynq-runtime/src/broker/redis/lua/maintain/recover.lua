-- Requeues tasks whose worker is gone at the head of pending (docs/design/recovery.md#recovery).
-- KEYS     1 active · 2 lease · 3 pending · 4 x:absent
-- ARGV     1 now · 2 prefix of task hashes · 3 limit (at most 100) · 4 further grace of a Go run, seconds
-- Returns  1 if more may be waiting, else 0 · then the ids, in the order in which they were taken
local call = redis.call
local now_s, now_ns = clock(ARGV[1])
local limit, grace = tonumber(ARGV[3]), tonumber(ARGV[4])
-- This call removes nothing; as the first write it lets the script run when memory is full.
call('ZREM', KEYS[2], '')
-- These calls change nothing either: a list of a foreign type stops the script here, before a task has left active.
call('LLEN', KEYS[1])
call('LLEN', KEYS[3])

local back, gone, depth, side, more, skipped, pages = {}, {}, {}, {}, 0, 0, 0
while #back < limit and pages < 10 do
  pages = pages + 1
  local lapsed = call('ZRANGEBYSCORE', KEYS[2], '-inf', whole(now_s), 'WITHSCORES', 'LIMIT', skipped, limit - #back)
  if #lapsed == 0 then break end
  for i = 1, #lapsed, 2 do
    local id, lease = lapsed[i], tonumber(lapsed[i + 1])
    local key = ARGV[2] .. id
    local token = peek('HGET', key, 'pending_since')
    if not token and call('EXISTS', key) == 1 and lease > now_s - grace then
      -- A run without a token is Go's, and Go gives its own runs this much longer.
      skipped = skipped + 1
    else
      call('ZREM', KEYS[2], id)
      -- New runs come in at the head of active: tasks that were taken earlier lie deeper.
      side[id], depth[id] = side_of(KEYS[1], id)
      depth[id] = depth[id] or call('LPOS', KEYS[1], id, 'RANK', -1)
      if depth[id] then
        gone[#gone + 1] = id
        if type(token) ~= 'table' and call('EXISTS', key) == 1 then back[#back + 1] = id end
      elseif peek('HGET', key, 'state') == 'active' then
        -- Active was lost, or came back in part: the lease is the last trace of the task. A server that still runs it is fenced.
        depth[id] = -1
        back[#back + 1] = id
      end
    end
  end
end
table.sort(back, function(a, b) return depth[a] > depth[b] end)
-- Bytes of messages that this call may still read. Behind them the crashes of a task are counted whatever failed meanwhile.
local room = 1048576
-- The task that was taken first goes last, where the next dequeue takes it first.
for i = #back, 1, -1 do
  local key = ARGV[2] .. back[i]
  call('HSET', key, 'state', 'pending', 'pending_since', now_ns)
  local size, crashes = call('HSTRLEN', key, 'msg')
  if size <= room then
    room = room - size
    local task = call('HMGET', key, 'msg', 'crashes', 'crashes_retried')
    crashes = crashes_of(key, task[1], task[2], task[3])
    call('HSET', key, 'crashes_retried', retried_of(task[1]) or '0')
  else
    crashes = crashes_of(key, nil, call('HGET', key, 'crashes'))
    call('HDEL', key, 'crashes_retried')
  end
  -- HINCRBY would refuse a number that is none of 64 bits, and leave the tasks of this call in two places.
  call('HSET', key, 'crashes', whole(crashes + 1))
  call('RPUSH', KEYS[3], back[i])
end
-- All depths are read before the first removal, because a removal changes the depth of others. A task is in its new place by now: if
-- Redis refused a call above, the sweep finds the task in active.
for _, id in ipairs(gone) do call('LREM', KEYS[1], side[id], id) end
-- If all lapsed runs are Go's and in their grace, the next call would see the same runs: there is nothing more for now.
if #back > 0 and (#back >= limit or pages >= 10) then
  more = call('ZCOUNT', KEYS[2], '-inf', whole(now_s)) > skipped and 1 or 0
end
return { more, unpack(back) }

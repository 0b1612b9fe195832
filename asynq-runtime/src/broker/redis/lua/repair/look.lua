-- Reads one task with its lock and its fields, to move it.
-- KEYS     1-10 as places.lua says · 11 task hash · 12 x:absent
-- ARGV     1 now · 2 prefix of the queue's keys · 3 id
-- Returns  nothing where there is no task; else the state that forbids to touch it ('' none) · 1 if a move holds it, else ''
--          · score ('' none) · exact due ms ('' none) · when its lock ends, Unix ms ('' it holds none) · state · group
--          · message · record of its move (nil for each of these that it lacks) · then the fields that go along, each before its value
local _, _, now_ms = clock(ARGV[1])
local id, key = ARGV[3], KEYS[11]
local task = peek('HMGET', key, 'state', 'group', 'unique_key', 'msg', 'move')
if task.err or (not task[1] and call('EXISTS', key) == 0) then return {} end
local state, group = task[1], task[2]
local score, due = '', ''
if zsets[state] then
  score = call('ZSCORE', zsets[state], id) or ''
elseif state == 'aggregating' and group then
  score = call('ZSCORE', prefix .. 'g:' .. group, id) or ''
end
if state == 'scheduled' or state == 'retry' then
  due = call('ZSCORE', KEYS[8], string.sub(state, 1, 1) .. ':' .. id) or ''
end
local lock, lock_ends = lock_of(key, task[3], group), ''
if lock and peek('GET', lock) == id then
  local left = call('PTTL', lock)
  if left > 0 then lock_ends = whole(now_ms + left) end
end
local held = is_held(KEYS[4], state, id, key) and 1 or ''
local found = { untouchable(state, id, group) or '', held, score, due, lock_ends, state, group, task[4], task[5] }
for _, part in ipairs(carried(key)) do found[#found + 1] = part end
return found

-- Makes an entry known as a program plans it, unless a newer program does.
-- KEYS     1 x:cron:ENTRY
-- ARGV     1 now · 2 spec · 3 zone · 4 revision · 5 seconds it is remembered · 6 the newer revision that this one
--          supersedes ('' none)
-- Returns  as entry.lua · then, if the schedule changed, the former spec and zone ('' and '' of a new entry)
local call = redis.call
local _, _, now_ms = clock(ARGV[1])
local spec, zone, revision = ARGV[2], ARGV[3], ARGV[4]
local entry = read_entry(KEYS[1])
-- The entry was written before the clock went back.
if entry and is_ahead(entry, now_ms) then
  call('HSET', KEYS[1], 'last', whole(now_ms))
  entry.last = now_ms
end
if entry and newer(entry.revision, revision) and entry.revision ~= ARGV[6] then return answer_of(entry, now_ms) end

local changed = not entry or entry.spec ~= spec or entry.zone ~= zone
if changed then
  -- A new spec does not catch up on ticks that the old one missed.
  call('HSET', KEYS[1], 'spec', spec, 'tz', zone, 'rev', revision, 'last', whole(now_ms))
elseif entry.revision ~= revision then
  call('HSET', KEYS[1], 'rev', revision)
end
call('EXPIRE', KEYS[1], ARGV[5])
local answer = answer_of(read_entry(KEYS[1]), now_ms)
if changed then
  answer[#answer + 1] = entry and entry.spec or ''
  answer[#answer + 1] = entry and entry.zone or ''
end
return answer

-- Deletes a text if it is still the one that the caller saw.
-- KEYS     1 asynq:x:leader:PROGRAM or asynq:x:leader-want:PROGRAM
-- ARGV     1 the text
-- Returns  1 if it was deleted, else 0
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0

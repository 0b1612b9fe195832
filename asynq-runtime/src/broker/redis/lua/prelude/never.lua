-- Prelude of the scripts that hold a task which moves between queues.
-- KEYS     none
-- ARGV     none
-- Returns  nothing

-- The last second of the year 9999: a score among the scheduled that is never due.
local never = '253402300799'

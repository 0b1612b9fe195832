-- Prelude of scripts that read protobuf messages, or add to them.
-- KEYS     none
-- ARGV     none; the scripts hand their own to the functions
-- Returns  nothing

-- Returns the number at `at`, a base 128 varint, and where it ends; nil if the bytes end before it does.
local function read_varint(bytes, at)
  local value, scale = 0, 1
  for _ = 1, 10 do
    local byte = string.byte(bytes, at)
    if not byte then return nil, at end
    at = at + 1
    value = value + byte % 128 * scale
    if byte < 128 then return value, at end
    scale = scale * 128
  end
  return nil, at
end

-- Returns a number as a base 128 varint.
local function write_varint(number)
  local bytes = {}
  repeat
    local low = number % 128
    number = (number - low) / 128
    bytes[#bytes + 1] = string.char(number > 0 and low + 128 or low)
  until number == 0
  return table.concat(bytes)
end

-- Which request wrk2 sends next: each is drawn alone with its weight, as the benchmark's own script
-- does. SREMUT_MIX has one line a kind: WEIGHT METHOD PATH BODY, the body in hexadecimal, `-` for
-- none. SREMUT_SEEDS has one seed for each thread, below 2^53, of this round alone. (This wrk2
-- takes whatever follows its URL for further URLs, so a script's arguments can only come by the
-- environment.)
--
-- The draws are LuaJIT's own (math.random), so the same seed gives the same kinds in every run of
-- this image, and other ones than the embedded generator draws from it.

local numbered = 0

function setup(thread)
   numbered = numbered + 1
   thread:set("number", numbered)
end

local function unhex(text)
   if text == "-" then return nil end
   return (text:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local function seed_of(thread)
   local place = 0
   for text in (os.getenv("SREMUT_SEEDS") or ""):gmatch("%d+") do
      place = place + 1
      if place == thread then return tonumber(text) end
   end
   error("SREMUT_SEEDS has no seed for thread " .. thread)
end

local requests, bounds, total = {}, {}, 0

function init(args)
   math.randomseed(seed_of(number or 1))
   for line in os.getenv("SREMUT_MIX"):gmatch("[^\n]+") do
      local weight, method, path, body = line:match("^(%d+) (%u+) (%S+) (%S+)$")
      local headers = {}
      if body ~= "-" then headers["Content-Type"] = "application/x-www-form-urlencoded" end
      if body == "-" and method == "POST" then body = "" end
      total = total + tonumber(weight)
      requests[#requests + 1] = wrk.format(method, path, headers, unhex(body))
      bounds[#bounds + 1] = total
   end
end

function request()
   local drawn = math.random() * total
   for place = 1, #bounds do
      if drawn < bounds[place] then return requests[place] end
   end
   return requests[#requests]
end

-- The keys of a directive and what their values may be: the Lua of slurm/directive
-- (keys.go, values.go), which is the truth. agree_test.go holds one to the other, to
-- the letter of each error. Pure Lua 5.1 to 5.4 and LuaJIT.

local V = {}

-- Go's white space beyond ASCII, as UTF-8.
local wide = { ["\194\133"] = true, ["\194\160"] = true, ["\225\154\128"] = true, ["\226\128\168"] = true,
	["\226\128\169"] = true, ["\226\128\175"] = true, ["\226\129\159"] = true, ["\227\128\128"] = true }
for last = 128, 138 do
	wide["\226\128" .. string.char(last)] = true
end

local function ascii_blank(c) return c == 32 or c >= 9 and c <= 13 end

-- leading is the length of the blank that begins at i; 0: there is none.
local function leading(s, i)
	local c = s:byte(i)
	if not c then return 0 end
	if c < 128 then return ascii_blank(c) and 1 or 0 end
	return wide[s:sub(i, i + 1)] and 2 or wide[s:sub(i, i + 2)] and 3 or 0
end

local function trailing(s, i)
	local c = s:byte(i)
	if c < 128 then return ascii_blank(c) and 1 or 0 end
	return wide[s:sub(i - 1, i)] and 2 or wide[s:sub(i - 2, i)] and 3 or 0
end

-- trim takes white space off both ends, in linear time: no pattern of Lua's does.
function V.trim(s)
	local from, to = 1, #s
	while from <= to do
		local n = leading(s, from)
		if n == 0 then break end
		from = from + n
	end
	while to >= from do
		local n = trailing(s, to)
		if n == 0 then break end
		to = to - n
	end
	return s:sub(from, to)
end

-- fields are the words between white space.
local function fields(s)
	local all, from, i = {}, nil, 1
	while i <= #s do
		local n = leading(s, i)
		if n > 0 and from then
			all[#all + 1], from = s:sub(from, i - 1), nil
		end
		if n == 0 then from = from or i end
		i = i + math.max(n, 1)
	end
	if from then all[#all + 1] = s:sub(from) end
	return all
end

local escapes = { ["\a"] = "\\a", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
	["\v"] = "\\v", ['"'] = '\\"', ["\\"] = "\\\\" }

-- quoted is a text as Go's %q has it, or as much of it as an error shows.
function V.quoted(s)
	return '"' .. s:sub(1, 500):gsub('[%c"\\]', function(c)
		return escapes[c] or string.format("\\x%02x", c:byte())
	end) .. '"'
end
local quoted = V.quoted

local function one_of(...)
	local words = { ... }
	local known = {}
	for _, w in ipairs(words) do known[w] = true end
	local text = #words == 1 and " is not " .. words[1] or " is not one of " .. table.concat(words, ", ")
	return function(v)
		if not known[v] then return quoted(v) .. text end
	end
end

local a_signal = one_of("HUP", "INT", "QUIT", "ABRT", "USR1", "USR2", "ALRM", "TERM", "URG", "CONT", "TSTP", "TTIN", "TTOU", "XCPU")

-- signal parts B:SIGUSR1 into USR1 and whether it is for the batch script.
function V.signal(v)
	-- Two letters beyond ASCII have capitals within it.
	local name, batch = v:gsub("\197\191", "S"):gsub("\196\177", "I"):upper():gsub("^B:", "")
	return (name:gsub("^SIG", "")), batch > 0
end

local function signal(v)
	if a_signal((V.signal(v))) then
		return quoted(v) .. a_signal(""):sub(3) -- as the user wrote it
	end
end

-- Lengths in seconds.
local units = { ns = 1e-9, us = 1e-6, ["\194\181s"] = 1e-6, ["\206\188s"] = 1e-6, ms = 1e-3, s = 1, m = 60, h = 3600 }

local LONGEST_TIME = 64 -- bytes; what follows takes the square of it

-- nanoseconds reads a time as Go's time.ParseDuration does; nil if it is none. A sign
-- but + is none: no time here is negative.
local function nanoseconds(v)
	local rest, sum = v:gsub("^%+", ""), 0
	if rest == "" then return nil end
	if rest == "0" then return 0 end
	while rest ~= "" do
		local whole, part, unit, after = rest:match("^(%d*)%.?(%d*)([^%d.]+)(.*)$")
		local seconds = unit and units[unit]
		if not seconds or whole == "" and part == "" then return nil end
		local each = math.floor(seconds * 1e9 + 0.5)
		sum = sum + tonumber("0" .. whole .. ".0") * each -- no integer of Lua 5.3, which would wrap
		part = part:sub(1, 18) -- more are less than Go counts
		if part ~= "" then
			sum = sum + math.floor(tonumber(part .. ".0") * (each / 10 ^ #part))
		end
		rest = after
	end
	return sum
end

local function span(hours, more)
	local text = " is not a time such as 20s or 2m30s, above 0 and up to " .. hours .. "h" .. (more or "")
	return function(v)
		local t
		if #v > LONGEST_TIME then
			t = nil
		elseif v:find("^%d+$") then
			t = tonumber(v .. ".0") * 1e9
		else
			t = nanoseconds(v)
		end
		if not t or t <= 0 or t > hours * 3600e9 then return quoted(v) .. text end
	end
end

local an_interval = span(168, ", or auto")

local function number(least, most)
	local text = string.format(" is not a number from %d to %d", least, most)
	return function(v)
		local n = v:find("^[+-]?%d+$") and tonumber((v:gsub("^%+", "")) .. ".0")
		if not n or n < least or n > most then return quoted(v) .. text end
	end
end

local function label(v)
	if #v > 63 or not v:find("^[A-Za-z0-9][A-Za-z0-9._+-]*$") then
		return quoted(v) .. " is not a name of up to 63 letters, digits, dots, dashes, plus signs and underscores, a letter or digit first"
	end
end

-- plain refuses what is no line of text.
local function plain(v)
	if V.trim(v) == "" then return "is empty" end
	if #v > 4096 then return "is longer than 4096 bytes" end
	if v:find("[\1-\8\10-\31\127]") or v:find("\194[\128-\159]") then return "holds a control character" end
end

local function dir(v)
	local err = plain(v)
	if err then return err end
	if v:gsub("%%[uxjAa%%]", ""):find("%", 1, true) then
		return quoted(v) .. " holds a % that is none of %u, %x, %j, %A, %a and %%"
	end
	if v:find("^~[^/]") then return quoted(v) .. ": of homes only ~/ is known" end
end

-- clean is Go's filepath.Clean.
function V.clean(path)
	local rooted, kept = path:sub(1, 1) == "/", {}
	for part in path:gmatch("[^/]+") do
		if part == ".." and #kept > 0 and kept[#kept] ~= ".." then
			kept[#kept] = nil
		elseif part ~= "." and not (part == ".." and rooted) then
			kept[#kept + 1] = part
		end
	end
	local text = (rooted and "/" or "") .. table.concat(kept, "/")
	return text == "" and "." or text
end

-- rune is the length of the UTF-8 character at i, nil if there is none.
local function rune(s, i)
	for n, shape in ipairs({ "^[\1-\127]", "^[\194-\223][\128-\191]", "^[\224-\239][\128-\191][\128-\191]",
		"^[\240-\244][\128-\191][\128-\191][\128-\191]" }) do
		local at = s:find(shape, i)
		if at then
			local two = s:sub(i, i + 1) -- neither overlong, nor a surrogate, nor beyond the last
			local wrong = n == 3 and (two < "\224\160" or two > "\237\159" and two < "\238") or n == 4 and (two < "\240\144" or two > "\244\143")
			return not wrong and n or nil
		end
	end
end

-- bound steps over one end of a range in brackets; nil where there is none.
local function bound(p, i)
	local c = p:sub(i, i)
	if c == "" or c == "-" or c == "]" then return nil end
	if c == "\\" then i = i + 1 end
	local n = rune(p, i)
	return n and i + n -- of a range that is not closed there comes no other
end

-- matches says whether a pattern can be read, as far as Go's filepath.Match
-- reads it to match nothing: up to the first * after another character.
local function matches(p)
	local i = p:find("[^*]") or #p + 1
	while i <= #p do
		local c = p:sub(i, i)
		i = i + 1
		if c == "*" then return true end
		if c == "\\" then
			if i > #p then return false end
			i = i + 1
		elseif c == "[" then
			if p:sub(i, i) == "^" then i = i + 1 end
			local ranges = 0
			while ranges == 0 or p:sub(i, i) ~= "]" do
				i = bound(p, i)
				if i and p:sub(i, i) == "-" then i = bound(p, i + 1) end
				if not i then return false end
				ranges = ranges + 1
			end
			i = i + 1
		end
	end
	return true
end

local function files(v)
	local err = plain(v)
	if err then return err end
	for _, p in ipairs(fields(v)) do
		local clean = V.clean(p)
		if clean == "." or clean == "/" or not matches(p) then return quoted(p) .. ' is not a pattern such as "out/*.ckpt"' end
		if clean == ".." or clean:sub(1, 3) == "../" then
			return quoted(p) .. " is not below the step's folder: name it by an absolute path"
		end
		if clean ~= p then return quoted(p) .. " is not in its shortest form: write " .. quoted(clean) end
	end
end

local function budget(v)
	local whole, cents = v:match("^(%d+)%.?(%d*)$")
	if not whole or #whole > 7 or #cents > 2 or (#cents == 0 and v:find("%.")) or tonumber(v) <= 0 then
		return quoted(v) .. " is not an amount of USD above 0, such as 20 or 7.50"
	end
end

-- keys are all of them, in the order of slurm/directive's Keys, and the checks of their values.
V.keys = {
	{ "ckpt", one_of("none", "dmtcp", "mana", "scr", "libburst", "criu", "signal", "command") },
	{ "strategy", one_of("none", "periodic", "preemptive", "both") },
	{ "interval", function(v) if v ~= "auto" then return an_interval(v) end end },
	{ "dir", dir },
	{ "keep", number(1, 100) },
	{ "keep_after", one_of("yes", "no") },
	{ "signal", signal },
	{ "grace", span(24) },
	{ "files", files },
	{ "setup", plain },
	{ "run", plain },
	{ "checkpoint", plain },
	{ "restart", plain },
	{ "preset", one_of("blcr") },
	{ "retries", number(0, 1000) },
	{ "label", label },
	{ "container", plain },
	{ "after", one_of("power_down", "none") },
	{ "stay", one_of("yes", "no") },
	{ "budget", budget },
}

local by_name, names = {}, {}
for i, k in ipairs(V.keys) do
	by_name[k[1]], names[i] = k, k[1]
end

-- check says what is wrong with a value; nil: nothing.
function V.check(key, value)
	local k = by_name[key]
	if not k then return "unknown key; known are " .. table.concat(names, ", ") end
	return k[2](value)
end

return V

-- Reads #BURST lines and comments, as slurm/directive does, which is the truth.
-- An error is a text in one line, the same as there.

local V = ...

local D = {}

-- What is more than this is left to burst-srun and burstd, which read everything: slurmctld
-- waits for us.
local MOST_LINES = 10000 -- above the first command
local MOST_BYTES = 64 * 1024 -- of all lines that may be directives
D.TOO_LONG = "too long"

-- clip makes a text that others wrote one line.
local function clip(text)
	local most = 400
	if #text > most then
		text = text:sub(1, most):gsub("[\192-\255][\128-\191]*$", function(last)
			local c = last:byte()
			return #last < (c >= 240 and 4 or c >= 224 and 3 or 2) and "" or last
		end) .. "…"
	end
	return (text:gsub("%c", "?"))
end

local function fault(where, key, text)
	return where .. clip((key and " " .. key or "") .. ": " .. text)
end

local function place(line)
	return line > 0 and "line " .. line .. ": #BURST" or "job comment"
end

-- unquote takes one value from the text at i; it returns it and where it ends.
local function unquote(text, i)
	local parts, quote = {}, nil
	while true do
		local stop = not quote and "[ \t\r\n\"']" or quote == "'" and "'" or '["\\]'
		local j = text:find(stop, i)
		parts[#parts + 1] = text:sub(i, (j or #text + 1) - 1)
		if not j then
			if quote then return nil end
			return table.concat(parts), #text + 1
		end
		local c = text:sub(j, j)
		i = j + 1
		if c == "\\" then
			parts[#parts + 1] = text:sub(i, i)
			i = i + 1
		elseif c == quote then
			quote = nil
		elseif c == '"' or c == "'" then
			quote = c
		else
			return table.concat(parts), j
		end
	end
end

-- split adds the settings of a text to all, up to a word that begins with stop. It
-- returns an error, and where it has ended.
local function split(text, line, all, stop)
	local i = 1
	while true do
		i = text:find("[^ \t\r\n]", i) or #text + 1
		local c = text:sub(i, i)
		if c == "" or c == "#" or stop and text:sub(i, i + #stop - 1) == stop then return nil, i end
		local sign = text:find("[= \t\r\n]", i)
		local bare = text:sub(i, (sign or #text + 1) - 1) == "stay" and (not sign or text:sub(sign, sign) ~= "=")
		if not bare and (not sign or sign == i or text:sub(sign, sign) ~= "=") then
			local blank = text:find(" ", i, true) or #text + 1
			return fault(place(line), nil, V.quoted(text:sub(i, blank - 1)) .. " is not key=value")
		end
		local s = { key = bare and "stay" or text:sub(i, sign - 1), line = line }
		if bare then
			s.value, i = "yes", i + 4 -- the one key that may stand alone
		else
			s.value, i = unquote(text, sign + 1)
		end
		if not s.value then return fault(place(line), s.key, "a quote is not closed") end
		all[#all + 1] = s
	end
end

-- checked says what is wrong with settings of one place.
local function checked(all)
	local seen = {}
	for _, s in ipairs(all) do
		local err, first = V.check(s.key, s.value), seen[s.key]
		if not err and first then
			err = first == s.line and "is set twice" or "is set already in line " .. first
		end
		if err then return fault(place(s.line), s.key, err) end
		seen[s.key] = s.line
	end
end

-- head calls visit(line, number) for the lines above the first command that may
-- be directives, and returns where that command is and the number of its line.
function D.head(script, visit)
	local at, number, size, bytes = 1, 1, #script, 0
	while at <= size do
		if number > MOST_LINES then error(D.TOO_LONG, 0) end
		local stop = script:find("\n", at, true) or size + 1
		local first, second = script:byte(at, at + 1)
		if first > 32 and first < 127 and first ~= 35 then return at, number end
		if first ~= 35 or second == 66 or second == 98 then -- another comment than #B or #b
			bytes = bytes + stop - at
			if bytes > MOST_BYTES then error(D.TOO_LONG, 0) end
			local line = V.trim(script:sub(at, stop - 1))
			if line ~= "" and line:byte(1) ~= 35 then return at, number end
			visit(line, number)
		end
		at, number = stop + 1, number + 1
	end
	return size + 1, number
end

-- read_script returns the settings of a script's #BURST lines, or nil and an error.
function D.read_script(script)
	local all, err = {}, nil
	D.head(script, function(line, number)
		if err or not (line == "#BURST" or line:find("^#BURST[ \t]")) then return end
		err = split(line:sub(7), number, all)
	end)
	err = err or checked(all)
	if err then return nil, err end
	return all
end

-- behind is a job's comment without the site's part; nil and an error if that cannot be read.
function D.behind(comment)
	if #comment > MOST_BYTES then error(D.TOO_LONG, 0) end
	local text = V.trim(comment)
	local part = text:match("^burst%-site:(.*)$")
	if not part then return text end
	local err, i = split(part, 0, {}, "burst:")
	if err then return nil, err end
	return part:sub(i)
end

-- read_comment returns what the user says in a job's comment; nothing if it is not Burst's.
function D.read_comment(comment)
	local text, err = D.behind(comment)
	if not text then return nil, err end
	local all, words = {}, text:match("^burst:(.*)$")
	err = words and (split(words, 0, all) or checked(all))
	if err then return nil, err end
	return all
end

local function has_method(m) return m.ckpt.value ~= "none" end

local function method(name)
	return function(m) return m.ckpt.value == name end
end

local NEEDS, COMMAND = "needs a method: add ckpt=dmtcp or another", "is for ckpt=command"

-- rules are those of slurm/directive that can fail without what the site says.
local rules = {
	{ "strategy", "ckpt", function(m) return has_method(m) or m.strategy.value == "none" end, NEEDS },
	{ "interval", "ckpt", has_method, NEEDS },
	{ "interval", "strategy", function(m) return m.strategy.value == "periodic" or m.strategy.value == "both" end, "is for strategy=periodic or both" },
	{ "dir", "ckpt", has_method, NEEDS },
	{ "keep", "ckpt", has_method, NEEDS },
	{ "keep_after", "ckpt", has_method, NEEDS },
	{ "files", "ckpt", method("signal"), "is for ckpt=signal" },
	{ "setup", "ckpt", method("command"), COMMAND },
	{ "run", "ckpt", method("command"), COMMAND },
	{ "checkpoint", "ckpt", method("command"), COMMAND },
	{ "restart", "ckpt", method("command"), COMMAND },
	{ "preset", "ckpt", method("command"), COMMAND },
}

-- own is what a job's user says, by key: the comment is over the script. said is all
-- that was written, own what of it has effect. An error is of what no site can mend.
function D.own(script, comment)
	local lines, err = D.read_script(script)
	if not lines then return nil, nil, err end
	local words
	words, err = D.read_comment(comment)
	if not words then return nil, nil, err end
	local m, said = {}, {}
	for _, s in ipairs(lines) do m[s.key], said[s.key] = s, s end
	for _, s in ipairs(words) do m[s.key], said[s.key] = s, s end
	for _, r in ipairs(rules) do
		local s, on = m[r[1]], m[r[2]]
		if s and on and not r[3](m) then
			local weaker = s.line > 0 and on.line == 0
			if not weaker and not (r[2] == "ckpt" and on.value == "none") then
				return nil, nil, fault(place(s.line), s.key, r[4])
			end
			m[s.key] = nil
		end
	end
	return m, said
end

-- lacks is what a comment lacks, as read by own, if the site says nothing more.
function D.lacks(own)
	local m = {}
	for key, s in pairs(own) do m[key] = s end
	if not own.ckpt then m.ckpt = { value = "none" } end
	if not own.strategy then m.strategy = { value = "both" } end
	for _, r in ipairs(rules) do
		if own[r[1]] and not r[3](m) then return fault(place(0), r[1], r[4]) end
	end
	if own.grace and not own.signal then return fault(place(0), "grace", "needs a signal: add signal=USR1 or another") end
	local name, batch = V.signal(own.signal and own.signal.value or "")
	if m.ckpt.value == "signal" and (name == "" or batch) then
		return fault(place(0), "ckpt", name == "" and "signal needs a signal: add signal=USR1 or another" or
			"signal reaches the step that burst-srun starts, not the batch script: write signal=" .. name)
	end
	if m.ckpt.value == "command" and not own.preset and not (own.checkpoint and own.restart) then
		return fault(place(0), "ckpt", "command needs checkpoint= and restart=, or preset=blcr")
	end
end

-- with is own, and those of the site's defaults that the job gets: what its user does not
-- say, but for what would make the user's words wrong. The second value is these alone.
function D.with(own, said, defaults)
	local given, m, list = {}, {}, {}
	for _, s in ipairs(defaults) do
		if not said[s.key] then given[s.key] = s end
	end
	local both = { ckpt = own.ckpt or given.ckpt or { value = "none" }, strategy = own.strategy or given.strategy or { value = "both" } }
	for _, r in ipairs(rules) do
		if own[r[1]] and given[r[2]] and both.ckpt.value ~= "none" and not r[3](both) then given[r[2]] = nil end
	end
	for _, s in ipairs(defaults) do
		if given[s.key] then m[s.key], list[#list + 1] = s, s end
	end
	for key, s in pairs(own) do m[key] = s end
	return m, list
end

-- write is a setting as a directive has it.
function D.write(s)
	if not s.value:find("[ \t\"'\\#]") and s.value ~= "" then return s.key .. "=" .. s.value end
	return s.key .. '="' .. s.value:gsub('["\\]', "\\%0") .. '"'
end

return D

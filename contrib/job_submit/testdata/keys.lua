-- keys.lua FOLDER: the names of the keys, a line each.
for _, k in ipairs(dofile(arg[1] .. "/values.lua").keys) do print(k[1]) end

-- For wrk: pages of contents, each the path of one line of the file PATHS.
local paths = {}
for line in io.lines(os.getenv("PATHS")) do paths[#paths + 1] = line end

function init()
  math.randomseed(os.time())
end

function request()
  return wrk.format("GET", paths[math.random(#paths)])
end

dofile(os.getenv("SAY"))

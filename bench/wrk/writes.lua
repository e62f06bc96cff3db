-- For wrk: taps, each by the bearer of one line of the file TOKENS, on the content of one line of CONTENTS.
local headers, contents = {}, {}
for line in io.lines(os.getenv("TOKENS")) do
  headers[#headers + 1] = { ["Authorization"] = "Bearer " .. line, ["Content-Type"] = "application/json" }
end
for line in io.lines(os.getenv("CONTENTS")) do contents[#contents + 1] = line end
local reactions = { "LIKE", "DISLIKE", "NONE" }

function init()
  math.randomseed(os.time())
end

function request()
  local body = '{"reaction":"' .. reactions[math.random(#reactions)] .. '"}'
  return wrk.format("PUT", "/v1/reactions/" .. contents[math.random(#contents)], headers[math.random(#headers)], body)
end

dofile(os.getenv("SAY"))

"""Written by hand: consume a batch, let one Lua call do registers and counts together, then commit the offsets.

A register is `event_time_ms << 20 | reaction << 16 | region` as 19 digits: Lua's numbers are doubles, and digits of one
length compare as text. Guarantee: a batch may be applied twice, which changes nothing.
"""

from __future__ import annotations

import argparse
import signal
import sys

import orjson
import redis
from confluent_kafka import Consumer

_REACTIONS = {"LIKE": 1, "DISLIKE": 2, "UNLIKE": 3, "UNDISLIKE": 3}
_REGIONS = {name: code for code, name in enumerate(("us", "eu", "ap", "sa", "af", "me", "oc"))}
_BATCH = 2_000
# ARGV: content, user, register, reaction, again and again. Registers of a content are one hash.
_APPLY = """
local fields = {'likes', 'dislikes'}
for i = 1, #ARGV, 4 do
  local content, user, new, reaction = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local key = 'register:' .. content
  local old = redis.call('HGET', key, user)
  if not old or string.sub(old, 1, 19) < new then
    redis.call('HSET', key, user, new .. reaction)
    local before = old and tonumber(string.sub(old, 20)) or 3
    if before ~= reaction then
      if before < 3 then redis.call('HINCRBY', 'count:' .. content, fields[before], -1) end
      if reaction < 3 then redis.call('HINCRBY', 'count:' .. content, fields[reaction], 1) end
    end
  end
end
"""


def arguments_of(value: bytes) -> tuple[str, str, str, int] | None:
    """What the script takes of one event; None if it is none."""
    try:
        event = orjson.loads(value)
        content_id, user_id, reaction = event["content_id"], event["user_id"], _REACTIONS[event["action"]]
        register = event["event_time"] << 20 | reaction << 16 | _REGIONS[event["region"]]
    except (ValueError, KeyError, TypeError):
        return None
    if not (isinstance(content_id, str) and isinstance(user_id, str)):
        return None
    return content_id, user_id, f"{register:019d}", reaction


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "out", "group", "state", "redis", "index"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    script = redis.Redis.from_url(options.redis).register_script(_APPLY)
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
        }
    )
    consumer.subscribe([options.topic])
    try:
        while True:
            messages = [message for message in consumer.consume(_BATCH, timeout=0.1) if message.error() is None]
            events = (arguments_of(message.value() or b"") for message in messages)
            arguments = [part for event in events if event is not None for part in event]
            if arguments:
                script(args=arguments)
            if messages:
                consumer.commit(asynchronous=False)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()

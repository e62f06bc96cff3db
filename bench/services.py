"""What a benchmark asks of the services of its stack, for the time of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import redis
from confluent_kafka.admin import AdminClient

_TIMEOUT_S = 30.0


@contextmanager
def durable_redis(url: str, more: Mapping[str, str] | None = None) -> Iterator[None]:
    """Redis empty, and durable for who keeps state in it: an append-only file, and nothing is evicted.

    Args:
        url: Of the server.
        more: Other options of it; all are set back afterwards.
    """
    wanted = {"maxmemory": "0", "appendfsync": "everysec", "appendonly": "yes", **(more or {})}
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        before = {name: client.config_get(name)[name] for name in wanted}
        try:
            for name, value in wanted.items():
                client.config_set(name, value)
            yield
        finally:
            client.flushdb()
            for name, value in before.items():
                client.config_set(name, value)


def remove_topics(bootstrap: str, unique: str) -> None:
    """Remove all topics with this in their names, so that the broker has no more work with them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [name for name in admin.list_topics(timeout=_TIMEOUT_S).topics if unique in name]
    for removed in admin.delete_topics(names).values() if names else ():
        removed.exception(_TIMEOUT_S)

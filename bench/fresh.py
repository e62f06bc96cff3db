"""Settings on a benchmark's own stack with names that nobody else has."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

from deploy.flink.local_stack.paths import STACK_DIR_VARIABLE
from pipelines.settings import Settings, load_settings, to_environment

if TYPE_CHECKING:
    from deploy.flink.local_stack import Stack


def fresh_settings(stack: Stack) -> Settings:
    """Topics and a keyspace that do not exist yet, on this stack whatever the environment says."""
    unique = uuid.uuid4().hex[:8]
    kafka_names = {
        "events_topic": f"like-events-{unique}",
        "dead_letters_topic": f"like-events-{unique}.dlq",
        "counts_topic": f"content-counts-{unique}",
    }
    flags = {"kafka": kafka_names, "cassandra": {"keyspace": f"bench_{unique}"}}
    return load_settings({}, stack=stack.env(), flags=flags)


def environment_of(stack: Stack, settings: Settings) -> dict[str, str]:
    """The environment from which another process resolves the same settings, on the same stack."""
    return {**os.environ, STACK_DIR_VARIABLE: str(stack.folder), **to_environment(settings)}

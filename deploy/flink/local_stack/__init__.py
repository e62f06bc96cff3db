"""The local stack: Kafka, Cassandra and a Redis-protocol server as plain processes, without root or a container.

`Stack(folder).up()` starts what is down; processes outlive the command that started them, listen on 127.0.0.1 only, and
are known by pid and start, so that nothing else is ever stopped. `running_stack_env()` is what commands find a running
stack by.
"""

from __future__ import annotations

from deploy.flink.local_stack.stack import FLINK, ServiceStatus, Stack, running_stack_env

__all__ = ["FLINK", "ServiceStatus", "Stack", "running_stack_env"]

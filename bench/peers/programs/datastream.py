"""PyFlink's DataStream API: a KeyedProcessFunction by content, registers in MapState, counts in ValueState.

State is in RocksDB with incremental checkpoints every 5 s; a start resumes the newest one. Guarantee: state exactly
once, outputs at least once, and they are absolute. The sink is SQL's, since the DataStream sink cannot take a field as
key.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Row, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from pyflink.table import StreamTableEnvironment

_REACTIONS = {"LIKE": 1, "DISLIKE": 2, "UNLIKE": 3, "UNDISLIKE": 3}
_REGIONS = {name: code for code, name in enumerate(("us", "eu", "ap", "sa", "af", "me", "oc"))}
_NONE = 3
_EVENT = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
_COUNTS = Types.ROW_NAMED(["content_id", "likes", "dislikes"], [Types.STRING(), Types.LONG(), Types.LONG()])


def parse(value: str) -> Iterator[tuple[str, str, int]]:
    """(content, user, register) of an event; nothing if it is none."""
    try:
        event = json.loads(value)
        reaction = _REACTIONS[event["action"]]
        register = event["event_time"] << 20 | reaction << 16 | _REGIONS[event["region"]]
        yield event["content_id"], event["user_id"], register
    except (ValueError, KeyError, TypeError):
        return


class Count(KeyedProcessFunction):
    """Counts of one content."""

    def open(self, context: RuntimeContext) -> None:
        """Make the states."""
        self.registers = context.get_map_state(MapStateDescriptor("registers", Types.STRING(), Types.LONG()))
        self.counts = context.get_state(ValueStateDescriptor("counts", Types.TUPLE([Types.LONG(), Types.LONG()])))

    def process_element(self, value: tuple[str, str, int], _context: KeyedProcessFunction.Context) -> Iterator[Row]:
        """Take one event; emit the counts if it changes them."""
        content_id, user_id, new = value
        old = self.registers.get(user_id) or _NONE << 16
        if new <= old:
            return
        self.registers.put(user_id, new)
        before, after = old >> 16 & 15, new >> 16 & 15
        if before == after:
            return
        likes, dislikes = self.counts.value() or (0, 0)
        likes += (after == 1) - (before == 1)
        dislikes += (after == 2) - (before == 2)
        self.counts.update((likes, dislikes))
        yield Row(content_id, likes, dislikes)


def configuration(mode: str, jars: str, state: Path) -> dict[str, str]:
    """Flink's options."""
    checkpoints = sorted(state.glob("*/chk-*/_metadata"), key=lambda file: file.stat().st_mtime)
    resumed = {"execution.state-recovery.path": checkpoints[-1].parent.as_uri()} if checkpoints else {}
    return {
        "pipeline.jars": ";".join(Path(jar).as_uri() for jar in jars.split(os.pathsep)),
        "pipeline.object-reuse": "true",
        "parallelism.default": "2",
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": state.as_uri(),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "state.backend.type": "rocksdb",
        "taskmanager.memory.managed.size": "1 gb",
        "taskmanager.numberOfTaskSlots": "2",
        "rest.port": "0",
        "rest.bind-port": "0",
        "python.execution-mode": mode,
        "python.fn-execution.bundle.size": "10000",
        "python.fn-execution.bundle.time": "500",
        "python.state.cache-size": "20000",
        "python.map-state.read-cache-size": "100000",
        "python.map-state.write-cache-size": "100000",
        **resumed,
    }


def build(env: StreamExecutionEnvironment, bootstrap: str, topic: str, out: str, group: str) -> Any:  # noqa: ANN401
    """The job; returns its running result."""
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(topic)
        .set_group_id(group)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .set_property("isolation.level", "read_committed")
        .build()
    )
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
    events = lines.flat_map(parse, output_type=_EVENT)
    counts = events.key_by(lambda event: event[0], key_type=Types.STRING()).process(Count(), output_type=_COUNTS)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(f"""
        CREATE TABLE counts (content_id STRING, likes BIGINT, dislikes BIGINT) WITH (
          'connector' = 'kafka', 'topic' = '{out}', 'properties.bootstrap.servers' = '{bootstrap}',
          'key.format' = 'raw', 'key.fields' = 'content_id', 'value.format' = 'json',
          'sink.delivery-guarantee' = 'at-least-once'
        )""")
    return tables.from_data_stream(counts).execute_insert("counts")


def main() -> None:
    """Run until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "out", "group", "state", "redis", "index", "mode", "jars"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    wanted = Configuration()
    for name, value in configuration(options.mode, options.jars, Path(options.state)).items():
        wanted.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(wanted)
    build(env, options.bootstrap, options.topic, options.out, options.group).wait()


if __name__ == "__main__":
    main()

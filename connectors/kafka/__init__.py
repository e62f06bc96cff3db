"""The log: topics as the job needs them, offsets, publishing lines as they are, and reading a bounded range."""

from connectors.kafka.admin import commit_offsets
from connectors.kafka.client import content_key, counts_topic, max_dead_letter_bytes, max_event_bytes
from connectors.kafka.groups import forget_groups
from connectors.kafka.offsets import beginning_offsets, committed_offsets, end_offsets, offsets_for_times
from connectors.kafka.publisher import Publisher
from connectors.kafka.reader import Record, read_topic
from connectors.kafka.topics import ensure_topics, topic_id

__all__ = [
    "Publisher",
    "Record",
    "beginning_offsets",
    "commit_offsets",
    "committed_offsets",
    "content_key",
    "counts_topic",
    "end_offsets",
    "ensure_topics",
    "forget_groups",
    "max_dead_letter_bytes",
    "max_event_bytes",
    "offsets_for_times",
    "read_topic",
    "topic_id",
]

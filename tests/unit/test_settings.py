from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from pipelines.errors import SettingError
from pipelines.settings import Settings, load_settings, to_environment
from tests.support import ROOT


def settings_table() -> str:
    """The table in README.md."""
    rows = []
    for section in Settings.model_fields:
        defaults = getattr(Settings(), section)
        for key, field in type(defaults).model_fields.items():
            value = getattr(defaults, key)
            value = value.get_secret_value() if isinstance(value, SecretStr) else value
            text = ",".join(value) if isinstance(value, tuple) else "" if value == {} else str(value)
            rows.append(f"| `{section}.{key}` | {f'`{text}`' if text else ''} | {field.description} |")
    return "\n".join(["| setting | default | |", "|---|---|---|", *rows])


def test_the_readme_lists_every_setting_with_its_default() -> None:
    assert settings_table() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_later_sources_outrank_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "likes.toml"
    file.write_text('[kafka]\nbootstrap = "file:1"\nevents_topic = "of-file"\n[events]\nregions = ["us", "eu"]\n')
    stack = {"KAFKA_BOOTSTRAP": "stack:1", "CASSANDRA_PORT": "9999"}
    environ = {"LIKES_CONFIG": str(file)}
    assert load_settings(environ, stack=stack).kafka.bootstrap == "file:1"
    assert load_settings(environ, stack=stack).cassandra.port == 9999
    assert load_settings(environ | {"KAFKA_BOOTSTRAP": "env:1"}, stack=stack).kafka.bootstrap == "env:1"
    environ |= {"KAFKA_BOOTSTRAP": "env:1", "LIKES_KAFKA_BOOTSTRAP": "own:1", "LIKES_EVENTS_REGIONS": "us,ap"}
    found = load_settings(environ, flags={"job": {"parallelism": 3}})
    assert (found.kafka.bootstrap, found.kafka.events_topic, found.job.parallelism) == ("own:1", "of-file", 3)
    assert found.events.regions == ("us", "ap")


@pytest.mark.parametrize("events", ['regions = ["us", "eu"]', 'regions = "us, eu"'])
@pytest.mark.parametrize(
    "cassandra", ['hosts = ["a", "b"]\nreplication = {dc1 = 3}', 'hosts = "a,b"\nreplication = "dc1=3"']
)
def test_lists_are_written_either_way(tmp_path: Path, events: str, cassandra: str) -> None:
    file = tmp_path / "likes.toml"
    file.write_text(f"[events]\n{events}\n[cassandra]\n{cassandra}\n")
    found = load_settings({"LIKES_CONFIG": str(file)})
    assert (found.events.regions, found.cassandra.hosts, found.cassandra.replication) == (
        ("us", "eu"),
        "a,b",
        {"dc1": 3},
    )


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("LIKES_KAFKA_BOOTSTRAPS", "x", "kafka.bootstraps: is not a setting"),
        ("LIKES_NONSENSE_X", "x", "nonsense: is not a setting"),
        ("LIKES_JOB_PARALLELISM", "0", "job.parallelism"),
        ("LIKES_JOB_PARALLELISM", "two", "job.parallelism"),
        ("LIKES_JOB_CHECKPOINT_INTERVAL_MS", "6000", "job: checkpoint_interval_ms must be at most window_ms"),
        ("LIKES_EVENTS_HOME_REGION", "mars", "events: home_region 'mars' is not in regions"),
        ("LIKES_REDIS_URL", "http://127.0.0.1", "redis.url: must begin with redis://"),
        ("LIKES_RETRY_INITIAL_MS", "10000", "retry: initial_ms must be at most max_ms"),
        ("LIKES_CASSANDRA_REPLICATION", "dc1:3", "cassandra.replication: 'dc1:3' is not of the form dc1=3"),
        ("LIKES_EVENTS_REGIONS", "us,us", "regions must be 1 to 65536 distinct names"),
        ("LIKES_EVENTS_REGIONS", "us,'; DROP", "must be lower-case letters"),
        ("LIKES_CASSANDRA_KEYSPACE", "a; b", "cassandra.keyspace"),
        ("LIKES_KAFKA_EVENTS_TOPIC", "a b", "kafka.events_topic"),
    ],
)
def test_a_bad_setting_stops_start_up_by_name(variable: str, value: str, named: str) -> None:
    with pytest.raises(SettingError) as raised:
        load_settings({variable: value})
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"[kafka", b"\xff", None])
def test_an_unreadable_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "likes.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingError, match="LIKES_CONFIG="):
        load_settings({"LIKES_CONFIG": str(file)})


def test_secrets_do_not_print() -> None:
    environ = {
        "LIKES_KAFKA_PASSWORD": "s3cret",
        "REDIS_URL": "redis://:s3cret@h:1/0",
        "LIKES_CASSANDRA_PASSWORD": "s3cret",
    }
    found = load_settings(environ)
    assert "s3cret" not in repr(found) + str(found)
    assert found.redis.url.get_secret_value() == "redis://:s3cret@h:1/0"


def test_another_process_resolves_the_same_settings() -> None:
    flags: dict[str, dict[str, object]] = {
        "cassandra": {"replication": {"dc1": 3, "dc2": 2}, "password": "p"},
        "events": {"regions": ("us", "eu")},
        "redis": {"ttl_s": 60},
    }
    found = load_settings({}, flags=flags)
    assert load_settings(to_environment(found)) == found


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"LIKES_CASSANDRA_REPLICATION": "dc1:3"}, "cassandra.replication: 'dc1:3'"),
        ({"LIKES_CASSANDRA_REPLICATION": "dc1=3", "LIKES_CASSANDRA_CONSISTENCY": "ONE"}, "consistency ONE"),
        ({"LIKES_JOB_RESTART_ATTEMPTS": "0"}, "restart_attempts"),
        ({"LIKES_EVENTS_MAX_AHEAD_MS": str(1 << 43)}, "max_ahead_ms"),
    ],
)
def test_what_would_go_wrong_later_stops_start_up(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        load_settings(environ)

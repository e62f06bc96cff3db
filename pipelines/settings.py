"""Every setting of the counter, resolved once: defaults, then a TOML file, then the environment, then flags.

An unknown key or an impossible value stops start-up with a `SettingError` that names it; secrets do not print.
Nothing here opens a connection.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator, model_validator

from pipelines.errors import SettingError
from pipelines.setting_types import Addresses, Section
from pipelines.settings_of_service import AuthSettings, LimitSettings, ServeSettings

ENV_PREFIX = "LIKES_"
CONFIG_FILE_VARIABLE = "LIKES_CONFIG"
# The four names that `likes stack env` prints; scripts know them without our prefix.
SERVICE_VARIABLES: Mapping[str, tuple[str, str]] = {
    "KAFKA_BOOTSTRAP": ("kafka", "bootstrap"),
    "CASSANDRA_HOSTS": ("cassandra", "hosts"),
    "CASSANDRA_PORT": ("cassandra", "port"),
    "REDIS_URL": ("redis", "url"),
}
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,47}\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,200}\Z")
_REGION = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")


def _parts(value: object) -> object:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _pairs(value: object) -> object:
    if not isinstance(value, str):
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if bad := [part for part in parts if "=" not in part]:
        raise ValueError(f"{bad[0]!r} is not of the form dc1=3")
    return dict(part.split("=", 1) for part in parts)


class KafkaSettings(Section):
    """Where the log is. `bootstrap` is a comma-separated host:port list."""

    bootstrap: Addresses = Field(default="127.0.0.1:9092", description="host:port of brokers, comma-separated")
    events_topic: str = Field(default="like-events", description="the log")
    dead_letters_topic: str = Field(default="like-events.dlq", description="records that are not events")
    counts_topic: str = Field(default="content-counts", description="every stored total, compacted")
    partitions: int = Field(default=4, ge=1, le=10_000, description="partitions of topics that we create")
    replication: int = Field(default=1, ge=1, le=9, description="replication factor of topics that we create")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="how to talk to the brokers"
    )
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="", description="empty: no authentication"
    )
    username: str = Field(default="", description="with authentication")
    password: SecretStr = Field(default=SecretStr(""), description="does not print")
    ca_file: str = Field(default="", description="PEM file of the authority that signed the brokers")

    @field_validator("events_topic", "dead_letters_topic", "counts_topic")
    @classmethod
    def _topic(cls, value: str) -> str:
        if not _TOPIC.match(value):
            raise ValueError("is not a Kafka topic name (letters, digits, '.', '_', '-')")
        return value


class CassandraSettings(Section):
    """Where the system of record is. `hosts` is comma-separated."""

    hosts: Addresses = Field(default="127.0.0.1", description="contact points, comma-separated")
    port: int = Field(default=9042, ge=1, le=65_535, description="native protocol")
    keyspace: str = Field(default="likes", description="created if missing")
    local_dc: str = Field(default="datacenter1", description="the data centre of LOCAL_ levels")
    replication: Annotated[dict[str, int], BeforeValidator(_pairs)] = Field(
        default_factory=dict,
        description="replicas per data centre, `dc1=3,dc2=3` or a table; empty: SimpleStrategy with one replica",
    )
    consistency: Literal["LOCAL_QUORUM", "LOCAL_ONE", "ONE", "QUORUM", "EACH_QUORUM", "ALL"] = Field(
        default="LOCAL_QUORUM", description="of reads and writes of counts"
    )
    username: str = Field(default="", description="with authentication")
    password: SecretStr = Field(default=SecretStr(""), description="does not print")
    tls_ca_file: str = Field(default="", description="a CA file turns TLS on")
    request_timeout_ms: int = Field(default=10_000, ge=100, le=600_000, description="of one request")
    batch_rows: int = Field(default=80, ge=1, le=500, description="rows in one unlogged batch")

    @model_validator(mode="after")
    def _quorum(self) -> Self:
        if self.consistency in {"ONE", "LOCAL_ONE"} and any(count > 1 for count in self.replication.values()):
            # A total may be filled into Redis as complete only if the newest write has been read.
            raise ValueError(f"consistency {self.consistency} may read what is old where there are several replicas")
        return self

    @field_validator("keyspace")
    @classmethod
    def _keyspace(cls, value: str) -> str:
        if not _IDENTIFIER.match(value):
            raise ValueError("must be a lower-case identifier of at most 48 characters")
        return value


class RedisSettings(Section):
    """Where the cache is: redis:// or rediss://; a password in the URL does not print."""

    url: SecretStr = Field(default=SecretStr("redis://127.0.0.1:6379/0"), description="redis:// or rediss://")
    ttl_s: int = Field(default=0, ge=0, description="life of a count in seconds; 0: no expiry")
    batch_totals: int = Field(default=1_000, ge=1, le=10_000, description="totals in one Lua call")
    timeout_ms: int = Field(default=5_000, ge=50, le=600_000, description="of one call")

    @field_validator("url")
    @classmethod
    def _scheme(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must begin with redis://, rediss:// or unix://")
        return value


class RetrySettings(Section):
    """How long a writer insists before the job fails over and resumes from its checkpoint."""

    attempts: int = Field(default=6, ge=1, le=100, description="of one call to a service, the first included")
    initial_ms: int = Field(default=100, ge=1, le=60_000, description="first pause, doubled each time, with jitter")
    max_ms: int = Field(default=5_000, ge=1, le=600_000, description="longest pause")

    @model_validator(mode="after")
    def _pauses(self) -> Self:
        if self.initial_ms > self.max_ms:
            raise ValueError("initial_ms must be at most max_ms")
        return self


class EventSettings(Section):
    """What a valid LikeEvent may hold."""

    regions: Annotated[tuple[str, ...], BeforeValidator(_parts)] = Field(
        default=("us", "eu", "ap", "sa", "af", "me", "oc"),
        description="comma-separated or a list; codes are positions in it: append only, never reorder",
    )
    home_region: str = Field(default="us", description="the region of an event that names none")
    max_record_bytes: int = Field(default=65_536, ge=256, le=1_048_576, description="larger ones are dead letters")
    max_ahead_ms: int = Field(
        default=300_000, ge=0, le=86_400_000, description="how far event_time may be ahead of the broker"
    )

    @model_validator(mode="after")
    def _regions(self) -> Self:
        if not 1 <= len(self.regions) <= 65_536 or len(set(self.regions)) != len(self.regions):
            raise ValueError("regions must be 1 to 65536 distinct names")
        if bad := [r for r in self.regions if not _REGION.match(r)]:
            raise ValueError(f"region {bad[0]!r} must be lower-case letters, digits and '-'")
        if self.home_region not in self.regions:
            raise ValueError(f"home_region {self.home_region!r} is not in regions")
        return self


class JobSettings(Section):
    """How the Flink job runs."""

    window_ms: int = Field(
        default=5_000, ge=100, le=600_000, description="a total per changed content at least this often"
    )
    checkpoint_interval_ms: int = Field(
        default=5_000, ge=100, le=3_600_000, description="totals leave then; replayed after a crash at the most"
    )
    parallelism: int = Field(default=2, ge=1, le=1_024, description="subtasks of each operator")
    state_backend: Literal["rocksdb", "hashmap"] = Field(
        default="rocksdb", description="rocksdb: on disk; hashmap: on the heap"
    )
    state_dir: str = Field(default="", description="checkpoints and savepoints; empty: the stack's folder")
    managed_memory_mb: int = Field(
        default=1_024, ge=64, le=1_048_576, description="for RocksDB, of an embedded MiniCluster"
    )
    mini_batch_rows: int = Field(default=50_000, ge=1, le=10_000_000, description="a full batch flushes early")
    arrow_batch_rows: int = Field(default=10_000, ge=1, le=1_000_000, description="totals in one call to the stores")
    lease_ttl_s: int = Field(default=20, ge=3, le=600, description="after which a silent job may be replaced")
    restart_attempts: int = Field(default=1_000_000, ge=1, description="how often a failed job restarts by itself")
    flink_rest: str = Field(default="http://127.0.0.1:8081", description="the cluster that `--target cluster` uses")
    cluster_python: str = Field(default="python", description="the cluster's interpreter, with apache-flink in it")

    @model_validator(mode="after")
    def _intervals(self) -> Self:
        if self.checkpoint_interval_ms > self.window_ms:
            raise ValueError("checkpoint_interval_ms must be at most window_ms")
        return self


class Settings(Section):
    """All settings. A section is a table of the TOML file; LIKES_KAFKA_BOOTSTRAP sets [kafka] bootstrap."""

    kafka: KafkaSettings = KafkaSettings()
    cassandra: CassandraSettings = CassandraSettings()
    redis: RedisSettings = RedisSettings()
    retry: RetrySettings = RetrySettings()
    events: EventSettings = EventSettings()
    job: JobSettings = JobSettings()
    serve: ServeSettings = ServeSettings()
    auth: AuthSettings = AuthSettings()
    limit: LimitSettings = LimitSettings()


def load_settings(
    environ: Mapping[str, str],
    *,
    stack: Mapping[str, str] | None = None,
    flags: Mapping[str, Mapping[str, object]] | None = None,
) -> Settings:
    """Resolve the settings once.

    Args:
        environ: The process environment. LIKES_CONFIG names a TOML file; LIKES_<SECTION>_<KEY> sets one value;
            KAFKA_BOOTSTRAP, CASSANDRA_HOSTS, CASSANDRA_PORT and REDIS_URL are understood too.
        stack: The same four names as a running local stack reports them; they rank below the environment.
        flags: Values from the command line, by section, ranking highest.

    Raises:
        SettingError: A key is unknown, a value impossible or the TOML file unreadable; the message names it.
    """
    values: dict[str, dict[str, Any]] = {}
    for source in (_from_services(stack or {}), _from_file(environ), _from_services(environ), _from_prefixed(environ)):
        _merge(values, source)
    _merge(values, flags or {})
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        kind = "is not a setting" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
        raise SettingError(f"setting {name}: {kind}", "see the settings table in README.md") from None


def _merge(into: dict[str, dict[str, Any]], source: Mapping[str, Mapping[str, object]]) -> None:
    for section, entries in source.items():
        into.setdefault(section, {}).update(entries)


def _from_services(environ: Mapping[str, str]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for variable, (section, key) in SERVICE_VARIABLES.items():
        if environ.get(variable):
            found.setdefault(section, {})[key] = environ[variable]
    return found


def _from_file(environ: Mapping[str, str]) -> dict[str, dict[str, object]]:
    name = environ.get(CONFIG_FILE_VARIABLE)
    if not name:
        return {}
    try:
        parsed = tomllib.loads(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(f"{CONFIG_FILE_VARIABLE}={name} cannot be read: {error}", "see README, Settings") from None
    for section, entries in parsed.items():
        if not isinstance(entries, dict):
            raise SettingError(f"setting {section}: is not a table of settings", "see the settings table in README.md")
    return parsed


def _from_prefixed(environ: Mapping[str, str]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    own = {CONFIG_FILE_VARIABLE, "LIKES_STACK_DIR", "LIKES_CACHE_DIR"}
    for variable, text in environ.items():
        if not variable.startswith(ENV_PREFIX) or variable in own:
            continue
        section, _, key = variable.removeprefix(ENV_PREFIX).lower().partition("_")
        found.setdefault(section, {})[key] = text
    return found


def from_process(stack: Mapping[str, str] | None = None, **flags: Mapping[str, object]) -> Settings:
    """`load_settings` with this process's environment."""
    return load_settings(os.environ, stack=stack, flags=flags)


def to_environment(settings: Settings) -> dict[str, str]:
    """The LIKES_ variables from which another process resolves the same settings, secrets included."""
    return {
        f"{ENV_PREFIX}{section}_{key}".upper(): _as_text(value)
        for section in Settings.model_fields
        for key, value in getattr(settings, section)
        if value != getattr(getattr(Settings(), section), key)
    }


def _as_text(value: object) -> str:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case tuple():
            return ",".join(value)
        case dict():
            return ",".join(f"{key}={entry}" for key, entry in value.items())
        case _:
            return str(value)

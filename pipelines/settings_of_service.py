"""The settings of the HTTP service; see `pipelines.settings`, which resolves them with all others."""

from __future__ import annotations

from typing import Self

from pydantic import Field, SecretStr, model_validator

from pipelines.setting_types import Addresses, Section

_MIN_SECRET_BYTES = 32  # RFC 7518, 3.2: as long as the hash


class ServeSettings(Section):
    """How the service reads, writes and streams."""

    max_ids: int = Field(default=100, ge=1, le=1_000, description="ids in one request for counts")
    max_body_bytes: int = Field(default=4_096, ge=64, le=1_048_576, description="larger requests are refused")
    request_timeout_ms: int = Field(
        default=10_000, ge=100, le=600_000, description="for a request to arrive; slower clients are disconnected"
    )
    trusted_proxies: Addresses = Field(
        default="", description="whose X-Forwarded-For is believed, comma-separated; empty: nobody's"
    )
    redis_timeout_ms: int = Field(default=250, ge=10, le=60_000, description="of one call; then Cassandra is asked")
    redis_replica: SecretStr = Field(default=SecretStr(""), description="a URL to read counts from; empty: redis.url")
    cassandra_timeout_ms: int = Field(default=2_000, ge=10, le=60_000, description="of one call; then memory is asked")
    cassandra_reads: int = Field(default=8, ge=1, le=1_000, description="reads of Cassandra at once, in one process")
    kafka_timeout_ms: int = Field(default=5_000, ge=100, le=600_000, description="for Kafka to acknowledge an event")
    kafka_queue: int = Field(default=10_000, ge=1, le=1_000_000, description="events that may wait for Kafka")
    hot_reads_per_s: int = Field(default=50, ge=1, description="contents read so often are answered from memory")
    hot_cache_ms: int = Field(default=1_000, ge=0, le=60_000, description="for so long")
    hot_writes_per_s: int = Field(default=100, ge=1, description="contents tapped so often spread over partitions")
    hot_partitions: int = Field(default=4, ge=1, le=1_000, description="over so many; 1: they do not")
    negative_cache_ms: int = Field(
        default=2_000, ge=0, le=600_000, description="an id that nobody tapped stays unknown"
    )
    kept_counts: int = Field(
        default=100_000, ge=0, le=10_000_000, description="contents kept to be served stale while both stores are away"
    )
    idempotency_s: int = Field(default=86_400, ge=60, le=604_800, description="how long an Idempotency-Key is known")
    stream_clients: int = Field(default=1_000, ge=1, le=100_000, description="streams at once, in one process")
    address_streams: int = Field(default=100, ge=1, le=100_000, description="of them for one address")
    stream_stall_s: int = Field(
        default=15, ge=1, le=600, description="a stream that takes nothing for so long is ended"
    )


class AuthSettings(Section):
    """Who signs the tokens that name the user. One of secret, public_key_file and jwks_file."""

    secret: SecretStr = Field(
        default=SecretStr(""), description="HS256; empty, as the other two: the local stack's own, for `likes token`"
    )
    public_key_file: str = Field(default="", description="PEM file: RS256 or ES256, as the key is")
    jwks_file: str = Field(default="", description="JSON Web Key Set of RSA and P-256 keys, chosen by `kid`")
    issuer: str = Field(default="likes", min_length=1, description="`iss` that tokens must have")
    audience: str = Field(default="likes", min_length=1, description="`aud` that tokens must have")
    leeway_s: int = Field(default=30, ge=0, le=600, description="how far the issuer's clock may be apart")

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        secret = self.secret.get_secret_value()
        if sum(map(bool, (secret, self.public_key_file, self.jwks_file))) > 1:
            raise ValueError("give one of secret, public_key_file and jwks_file")
        if secret and len(secret.encode()) < _MIN_SECRET_BYTES:
            raise ValueError(f"secret must have at least {_MIN_SECRET_BYTES} bytes")
        return self


class LimitSettings(Section):
    """How often one user, or one address, may tap: so many a minute, and so many at once (GCRA)."""

    user_per_minute: int = Field(default=120, ge=1, le=100_000_000, description="taps of one user, in the long run")
    user_burst: int = Field(default=30, ge=1, le=100_000_000, description="taps of one user at once")
    address_per_minute: int = Field(default=6_000, ge=1, le=100_000_000, description="taps from one address")
    address_burst: int = Field(default=1_000, ge=1, le=100_000_000, description="taps from one address at once")

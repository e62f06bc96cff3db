"""What travels over HTTP."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ReactionIn(BaseModel):
    """What the user thinks now."""

    model_config = ConfigDict(extra="forbid", title="Reaction")

    reaction: Literal["LIKE", "DISLIKE", "NONE"] = Field(description="NONE takes back whatever it was.")


class AcceptedOut(BaseModel):
    """A tap that Kafka has on all in-sync replicas."""

    model_config = ConfigDict(title="Accepted")

    event_id: str = Field(description="UUIDv7.")
    content_id: str
    reaction: Literal["LIKE", "DISLIKE", "NONE"]
    event_time: int = Field(description="Milliseconds since the epoch.")
    superseded: bool = Field(description="Only of a repeated request: the user has tapped the content since.")
    token: str = Field(description="Send it as Read-Your-Write, and counts contain this tap.")


class CountOut(BaseModel):
    """One content."""

    model_config = ConfigDict(title="Count")

    content_id: str
    likes: int | None = Field(description="null where no store answers and nothing is remembered.")
    dislikes: int | None
    version: int = Field(description="Newest of its regions', packed; 0 if nobody has tapped it.")
    as_of: str | None = Field(description="Time of the newest tap that is counted, ISO 8601 in UTC.")
    staleness_ms: int | None = Field(description="How old the count may be; null where that is not known.")
    source: Literal["redis", "cassandra", "memory", "none"]
    known: bool = Field(description="Whether anybody has tapped it.")
    stale: bool = Field(description="The stores are away; this was read before.")
    my_reaction: Literal["LIKE", "DISLIKE", "NONE"] | None = Field(
        default=None, description="With a token only; null where it cannot be read."
    )


class CountsOut(BaseModel):
    """Several contents, in the order of the request."""

    model_config = ConfigDict(title="Counts")

    counts: list[CountOut]
    degraded: bool = Field(description="Whether a store is away.")


class DependencyOut(BaseModel):
    """A service that this one needs."""

    model_config = ConfigDict(title="Dependency")

    up: bool
    detail: str
    since_ms: int


class ReadinessOut(BaseModel):
    """Whether requests can be answered."""

    model_config = ConfigDict(title="Readiness")

    ready: bool = Field(description="Kafka answers, a store does, and it is known which counting is live.")
    dependencies: dict[str, DependencyOut]


class HotOut(BaseModel):
    """A content that is hot."""

    model_config = ConfigDict(title="Hot")

    content_id: str
    per_s: float


class OperationsOut(BaseModel):
    """How the counting does."""

    model_config = ConfigDict(title="Operations")

    generation: int | None
    events: int = Field(description="In the log.")
    events_per_s: float
    lag: int = Field(description="Events that are not counted yet.")
    staleness_ms: int | None
    dead_letters: int
    hot_reads: list[HotOut]
    hot_writes: list[HotOut]
    streams: int
    dependencies: dict[str, DependencyOut]


class ProblemOut(BaseModel):
    """RFC 9457."""

    model_config = ConfigDict(title="Problem")

    title: str
    status: int
    detail: str

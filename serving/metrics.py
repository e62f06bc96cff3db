"""Every metric of the service, for Prometheus at /metrics."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

REQUESTS = Counter("likes_http_requests_total", "Requests answered.", ["route", "status"])
SECONDS = Histogram("likes_http_request_seconds", "From the request to the whole answer.", ["route"], buckets=_SECONDS)
DEPENDENCY_UP = Gauge("likes_dependency_up", "Whether a service answered when it was last used.", ["service"])
READS = Counter("likes_counts_read_total", "Counts answered, by where they came from.", ["source"])
STORE_READS = Counter("likes_store_reads_total", "Round trips for counts.", ["store"])
EVENTS = Counter("likes_events_total", "Events handed to Kafka, by outcome.", ["outcome"])
LIMITED = Counter("likes_rate_limited_total", "Taps refused, by whose limit.", ["limit"])
QUEUED = Gauge("likes_events_queued", "Events that wait for Kafka.")
STREAMS = Gauge("likes_streams", "Streams that are open.")
STREAMS_DROPPED = Counter("likes_streams_dropped_total", "Streams ended because their client took nothing.")
HOT = Gauge("likes_hot_contents", "Contents that are hot.", ["path"])
LAG = Gauge("likes_counting_lag_events", "Events in the log that the job has not counted, as of its last checkpoint.")
STALENESS = Gauge("likes_counting_staleness_seconds", "How old the newest counts may be.")

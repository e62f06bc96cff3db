"""Running pipelines: where to start, how Flink is configured, and how a running job is followed, saved and stopped."""

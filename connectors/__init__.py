"""Clients of the services: Kafka, Cassandra and Redis. Each opens late, closes always and states its guarantee."""

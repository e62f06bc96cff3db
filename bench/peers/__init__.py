"""What other ways of counting the same log reach: the same topic, the same semantics, durable state, exact results."""

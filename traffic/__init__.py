"""Events to try the counter with: a seeded traffic model, with its exact counts, and a real reaction log."""

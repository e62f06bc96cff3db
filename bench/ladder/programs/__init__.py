"""The designs as programs, each what a competent engineer writes in a day; started by `bench.ladder.trial`."""

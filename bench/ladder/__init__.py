"""The ladder of designs that engineers argue about, each on real stores over the same taps: see docs/designs.md."""

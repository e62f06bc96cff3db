"""Benchmarks: each asserts its result before it prints a rate, and compares two things in one run as a ratio."""

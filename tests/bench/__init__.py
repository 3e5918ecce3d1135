"""Benchmarks: `tests/bench/run NAME [--quick]`."""

"""Benchmarks: each measures both sides in one run and writes what it found to results/."""

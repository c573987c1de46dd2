"""The benchmarks that need no GPU and take minutes at most."""

from benchmarks import auditing, coverage, drawing, imports, overhead, reporting, scoring

for benchmark in (imports, drawing, scoring, overhead, reporting, auditing, coverage):
    benchmark.main()

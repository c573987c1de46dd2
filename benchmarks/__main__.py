"""The benchmarks that need no GPU and take minutes at most."""

from benchmarks import (
    auditing,
    coverage,
    drawing,
    imports,
    overhead,
    reporting,
    scoring,
    whole_scoring,
)

BENCHMARKS = (
    imports,
    drawing,
    scoring,
    whole_scoring,
    overhead,
    reporting,
    auditing,
    coverage,
)

if __name__ == "__main__":
    for benchmark in BENCHMARKS:
        benchmark.main()

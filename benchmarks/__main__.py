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

for benchmark in (
    imports,
    drawing,
    scoring,
    whole_scoring,
    overhead,
    reporting,
    auditing,
    coverage,
):
    benchmark.main()

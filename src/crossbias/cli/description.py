"""What `crossbias data show` prints of a data set."""

from rich.console import Console
from rich.markup import escape

from crossbias.cli import tables
from crossbias.cli.options import say
from crossbias.data.dataset import BiasedDataset

_LARGEST = 12  # rows and columns of a table that is printed


def describe(console: Console, data: BiasedDataset) -> None:
    """Print size, hash, attributes with their association, and the target x bias table."""
    from crossbias.audit.association import count_table, cramers_v

    shape = " x ".join(str(size) for size in data.inputs.shape[1:])
    say(console, f"{data.name} {data.split}: {len(data):,} samples of {shape}")
    say(console, f"hash: {data.hash}")
    for attribute in data.attributes:
        column = data.attributes[attribute]
        known = column >= 0
        unknown = int((~known).sum())
        line = f"{attribute}: {len(data.values[attribute])} values"
        if known.any():
            counts = count_table(
                data.targets[known],
                column[known],
                (data.num_classes, len(data.values[attribute])),
            )
            line += f", Cramer's V with the target {float(cramers_v(counts)):.3f}"
        line += f", {unknown:,} not known" if unknown else ""
        say(console, line + (" (the bias)" if attribute == data.bias else ""))
    if data.bias and data.has_bias_labels:
        _print_counts(console, data)


def _print_counts(console: Console, data: BiasedDataset) -> None:
    """The target x bias table; aligned groups carry a star."""
    assert data.bias is not None
    names = data.values[data.bias][:_LARGEST]
    table = tables.make_table(
        "target", *names, title=f"samples by target and {data.bias}, * aligned"
    )
    counts, aligned = data.counts().tolist(), data.alignment().tolist()
    for target, name in enumerate(data.classes[:_LARGEST]):
        cells = [
            f"{counts[target][value]:,}{'*' if aligned[target][value] else ' '}"
            for value in range(len(names))
        ]
        table.add_row(escape(name), *cells)
    console.print(table)
    if max(data.num_classes, data.num_biases) > _LARGEST:
        say(
            console,
            f"(the first {_LARGEST} of {data.num_classes} classes, {data.num_biases} values)",
        )

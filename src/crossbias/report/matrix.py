"""The accuracy matrix: a heat map of every (target, bias) group."""

from markupsafe import Markup

from crossbias.report.heatmap import HeatMap
from crossbias.report.words import percent
from crossbias.verify import Metrics


def accuracy_matrix(name: str, test: Metrics, bias: str, number: int) -> Markup:
    """Accuracy of every (target, bias) group as a heat map; aligned groups are framed.

    Args:
        name: The run's name, for the description.
        test: The metrics to show; at least one group has samples.
        bias: The name of the bias attribute.
        number: The figure's number among the matrices of the page.
    """
    heat = HeatMap(
        values=[[cell.value for cell in row] for row in test.by_group],
        sizes=[[cell.n for cell in row] for row in test.by_group],
        rows=test.classes,
        columns=test.biases,
        row_label="class",
        column_label=bias,
        framed=test.aligned_groups,
    )
    return heat.figure(f"matrix {number}", f"{name}: {_description(test, bias)}")


def _description(test: Metrics, bias: str) -> str:
    values = [group.accuracy.value for group in test.groups if group.accuracy.n]
    limits = f"from {percent(min(values))} to {percent(max(values))}"
    return f"accuracy of {len(values)} groups of class and {bias}, {limits}"

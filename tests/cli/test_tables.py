"""What the command line prints of metrics: every attribute, warnings, and rates of two classes."""

import io
from dataclasses import replace
from unittest.mock import patch

import torch
from rich.console import Console

from crossbias.cli import printing
from crossbias.cli.printing import print_details, print_metrics
from crossbias.verify import Metrics, Positive, Predictions, Threshold


def judged(
    values: tuple[str, ...] = ("here", "there"),
    positive: Positive | None = None,
    cluster: torch.Tensor | None = None,
) -> Metrics:
    """Two classes from two sources; the model answers the source, on 20 samples of each group."""
    target = torch.tensor([0, 0, 1, 1]).repeat_interleave(20)
    source = torch.tensor([0, 1, 0, 1]).repeat_interleave(20)
    predictions = Predictions(
        index=torch.arange(80), target=target, probabilities=torch.eye(2)[source],
        attributes={"source": source, "size": target}, cluster=cluster,
    )  # fmt: skip
    aligned, classes = torch.eye(2) > 0, ("healthy", "ill")
    both = {
        name: predictions.metrics(
            bias=name, alignment=aligned, classes=classes, values=values, positive=positive
        )
        for name in ("source", "size")
    }
    return replace(both["source"], attributes={"size": both["size"]})


def printed(show: object, *arguments: object) -> list[str]:
    console = Console(file=io.StringIO(), width=200)
    with patch.object(printing, "make_console", return_value=console):
        show(*arguments)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_every_attribute_has_its_row() -> None:
    lines = printed(print_metrics, "split", {"test": judged()})
    assert lines[2].startswith("test 50.0 [39.3, 60.7] 100.0 [91.2, 100.0] 0.0 [0.0, 8.8]")
    assert lines[3].startswith("test, by size 50.0 [39.3, 60.7] 50.0 [39.3, 60.7] \N{EN DASH}")
    assert lines[2].endswith("0.0 [0.0, 22.4], worst of 4 groups")
    assert lines[3].endswith(", worst of 2 groups")  # size is the class: two groups are empty
    assert lines[4].startswith("The interval of the worst group is about the lowest true accuracy")
    assert len(lines) == 5  # no warning


def test_details_have_rates_of_two_classes_by_source() -> None:
    lines = printed(print_details, {"test": judged(("[here]", "there"))})
    details = next(line for line in lines if line.startswith("test 50.0"))
    assert "100.0 [" in details
    rates = [line for line in lines if line.startswith(("test [here]", "test there"))]
    head = next(line for line in lines if line.startswith("split bias"))
    assert head == "split bias recall of healthy recall of ill balanced accuracy"
    assert rates[0].startswith("test [here] 100.0 [83.9, 100.0] 0.0 [0.0, 16.1] 50.0")
    assert rates[1].startswith("test there 0.0 [0.0, 16.1] 100.0 [83.9, 100.0] 50.0")
    text = " ".join(lines)
    assert not any(word in text for word in ("sensitivity", "specificity", "positive"))


def test_corrupted_splits_have_their_mean() -> None:
    lines = printed(print_metrics, "split", {"test-c-fog-1": judged(), "test-c-snow-1": judged()})
    assert lines[-1] == "mean corruption accuracy: 50.0% (39.3\N{EN DASH}60.7%)"


def test_a_positive_class_has_its_rates_by_name() -> None:
    """Everybody from there is called ill: of the ill 20 of 40, of the healthy 20 of 40."""
    lines = printed(print_details, {"test": judged(positive=Positive("ill", 0.1))})
    assert "split samples sensitivity for ill specificity prevalence PPV NPV" in lines
    whole = next(line for line in lines if line.startswith("test all 50.0"))
    assert whole.startswith("test all 50.0 [35.2, 64.8] 50.0 [35.2, 64.8] 10.0 10.0 [")
    there = next(line for line in lines if line.startswith("test there"))
    assert there.startswith("test there 100.0 [83.9, 100.0] 0.0 [0.0, 16.1] 10.0 10.0 [")
    assert any(line.startswith("test all 0.500 [") for line in lines)  # the area
    assert any(line.startswith("test, by size here") for line in lines)
    assert "A sample is called ill if that is its most probable class." in lines
    assert lines[-2] == "PPV and NPV hold where 10.0% are ill."
    assert lines[-1].startswith("Intervals are over test samples: they are about this trained mod")


def test_a_threshold_says_where_it_comes_from() -> None:
    chosen = Positive("ill", None, Threshold(0.3, "sensitivity>=0.9 on the validation split"))
    lines = printed(print_details, {"test": judged(positive=chosen)})
    assert lines[-3] == (
        "A sample is called ill from a probability of 0.3 (sensitivity>=0.9 on the validation "
        "split); all accuracies above follow it."
    )
    assert "as frequent as in the samples of the row" in lines[-2]


def test_clusters_are_named_and_widen_rates_too() -> None:
    clustered = judged(cluster=torch.arange(80) // 4)
    lines = printed(print_metrics, "split", {"test": clustered})
    assert lines[-1].startswith("test: The 80 samples are in 20 clusters and say as much about the")
    assert lines[-1].endswith("Intervals over samples take that into account")
    rates = [line for line in printed(print_details, {"test": clustered}) if " there " in line]
    # Five clusters of a group agree, so they count as five samples, and less by Student's t.
    worth = 5 * (1.96 / 2.7764) ** 2
    limit = 100 * 1.96**2 / (worth + 1.96**2)
    assert rates[0].startswith(
        f"test there 0.0 [0.0, {limit:.1f}] 100.0 [{100 - limit:.1f}, 100.0]"
    )

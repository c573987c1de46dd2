"""Every attribute is reported, not only the one that is mitigated."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crossbias import BiasedDataset, TrainConfig, create, evaluate, fit
from crossbias.errors import CrossbiasError
from crossbias.networks import Network
from crossbias.runs.read import read_run
from crossbias.train.evaluation import alignments_of, metrics_of
from crossbias.types import UNKNOWN
from crossbias.verify import Alignment, Metrics, Predictions, wilson
from crossbias.verify.cells import aligned_names


def with_size(data: BiasedDataset, values: tuple[str, ...] = ("small", "large")) -> BiasedDataset:
    """The same data with a second attribute: odd samples are large."""
    size = torch.arange(len(data)) % 2
    return replace(
        data,
        attributes={**data.attributes, "size": size},
        values={**data.values, "size": values},
    )


def answered(data: BiasedDataset, answers: torch.Tensor) -> Predictions:
    return Predictions(
        index=data.index,
        target=data.targets,
        probabilities=torch.eye(data.num_classes)[answers],
        attributes=data.attributes,
    )


def test_metrics_hold_every_attribute_and_each_equals_its_own(data: BiasedDataset) -> None:
    both = with_size(data)
    answers = torch.where(both.attributes["size"] == 1, both.targets, (both.targets + 1) % 3)
    metrics = metrics_of(answered(both, answers), both)
    assert list(metrics.attributes) == ["size"]
    by_size = metrics.attributes["size"]
    assert by_size.biases == ("small", "large")
    assert {group.accuracy.value for group in by_size.groups if group.bias == "large"} == {1.0}
    assert {group.accuracy.value for group in by_size.groups if group.bias == "small"} == {0.0}
    assert by_size.equalized_odds is not None
    assert by_size.equalized_odds.value == 1.0
    assert metrics.overall == by_size.overall == wilson(24, 48)
    swapped = metrics_of(answered(both, answers), both.with_bias("size"))
    assert replace(swapped, attributes={}) == by_size
    assert swapped.attributes["color"] == replace(metrics, attributes={})
    none = metrics_of(answered(both, answers), both.with_bias(None))
    assert none.worst_group is None
    assert set(none.attributes) == {"color", "size"}


def test_every_attribute_survives_json_and_nothing_may_be_missing(data: BiasedDataset) -> None:
    both = with_size(data)
    metrics = metrics_of(answered(both, both.targets), both)
    value = json.loads(json.dumps(metrics.to_json(), allow_nan=False))
    assert Metrics.from_json(value) == metrics
    for key in value:
        with pytest.raises(CrossbiasError, match=f"not metrics of a split: KeyError.'{key}'"):
            Metrics.from_json({name: part for name, part in value.items() if name != key})
    del value["attributes"]["size"]["calibration"]
    with pytest.raises(CrossbiasError, match="not metrics of a split"):
        Metrics.from_json(value)


def test_alignment_follows_the_names_of_values_not_their_numbers(data: BiasedDataset) -> None:
    """A split may list its values in another order, or have one that training never saw."""
    train = with_size(data)
    table = {"size": Alignment(("small", "large"), torch.tensor([[True, False]] * 3))}
    test = with_size(data, ("large", "small"))  # the even samples are large here
    by_size = metrics_of(answered(test, test.targets), test, tables=table).attributes["size"]
    assert by_size.aligned_groups == (("small",),) * 3
    strange = with_size(data, ("huge", "small"))
    unseen = metrics_of(answered(strange, strange.targets), strange, tables=table)
    assert unseen.attributes["size"].aligned_groups == (("small",),) * 3
    assert set(alignments_of(train)) == {"color", "size"}


def test_an_unknown_attribute_of_all_samples_has_no_group_numbers(data: BiasedDataset) -> None:
    blank = replace(
        data,
        attributes={**data.attributes, "site": torch.full((48,), UNKNOWN)},
        values={**data.values, "site": ("a", "b")},
    )
    site = metrics_of(answered(blank, blank.targets), blank).attributes["site"]
    assert site.aligned is site.worst_group is site.equalized_odds is None
    assert site.overall == wilson(48, 48)


def test_a_run_folder_keeps_every_attribute(
    data: BiasedDataset, network: Network, tmp_path: Path
) -> None:
    train, test = with_size(data), replace(with_size(data), split="test")
    config = TrainConfig(epochs=1, batch_size=16, device="cpu")
    result = fit(create("erm"), train, network=network, config=config)
    assert result.alignment.equal(train.alignment())
    found = result.evaluate(test)["test"]
    again = evaluate(result.network, test, training=train)
    assert again == found
    table = train.with_bias("size").alignment()
    assert found.attributes["size"].aligned_groups == aligned_names(table, train.values["size"])
    folder = tmp_path / "run"
    from crossbias.train.fit import train_run

    train_run(
        create("erm"), train, None, network=network, config=config, folder=folder, resume=False,
        progress=None, tests=[test],
    )  # fmt: skip
    assert read_run(folder).test == found
    assert set(read_run(folder).test.attributes) == {"size"}


def test_without_a_bias_a_result_has_no_alignment_column(
    data: BiasedDataset, network: Network
) -> None:
    config = TrainConfig(epochs=1, batch_size=16, device="cpu")
    plain = replace(data, bias=None)
    result = fit(create("erm"), plain, network=network, config=config)
    assert result.alignment.shape == (3, 0)
    assert result.evaluate(replace(plain, split="test"))["test"].attributes["color"].worst_group


@pytest.mark.parametrize("bias", ["color", None])
def test_evaluate_takes_a_table_for_the_bias_alone(
    data: BiasedDataset, network: Network, bias: str | None
) -> None:
    table = torch.ones(3, 3, dtype=torch.bool)
    metrics = evaluate(network, data.with_bias(bias), alignment=table)
    if bias is None:
        assert metrics.aligned is None
    else:
        assert metrics.aligned_groups == (data.values["color"],) * 3

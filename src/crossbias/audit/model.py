"""A trained network: what its features reveal, which cues it follows, its confident errors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from crossbias.audit.counterfactual import Flips, flip_rates
from crossbias.audit.folds import num_present, usable
from crossbias.audit.permutation import enough_permutations, holm
from crossbias.audit.probe import probe, standardized
from crossbias.audit.slices import Slices, find_slices
from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import as_json
from crossbias.seeds import seed_for
from crossbias.train.evaluation import batches_for, evaluation_pass, logits_of
from crossbias.types import UNKNOWN
from crossbias.verify import Estimate
from crossbias.verify.clusters import design_effect, share_of

CONFIDENCE_LIMIT: Final = 0.9  # a mistake made with at least this probability is a confident error

_PERMUTATIONS: Final = 199  # fewer than for cues: there may be thousands of features


class FeatureFinding(NamedTuple):
    """How well a simple classifier reads an attribute from the features."""

    attribute: str
    balanced_accuracy: float | None = None
    control: float | None = None  # the same with values shuffled within each class
    chance: float | None = None
    p: float | None = None
    p_corrected: float | None = None
    reason: str | None = None


class ConfidentErrors(NamedTuple):
    """Confident errors in one group, or in one class if the data has no attributes."""

    attribute: str | None
    target: str
    bias: str | None
    errors: Estimate


@dataclass(frozen=True, kw_only=True)
class ModelFinding:
    """What an audit found about a network."""

    name: str  # of the network or its run
    split: str  # on which it was audited
    hash: str  # content hash of that split
    features: tuple[FeatureFinding, ...]  # what they reveal about each attribute
    flips: tuple[Flips, ...]
    confidence_limit: float = CONFIDENCE_LIMIT
    confident_errors: tuple[ConfidentErrors, ...]  # of each group of each attribute
    overall_errors: Estimate  # confident errors in all samples
    design_effect: float = 1.0  # so many errors of clusters say as much as an independent one
    slices: Slices  # samples of a class on which it fails together
    answers: tuple[int, ...]  # class numbers, one for each sample; not part of audit.json

    def to_json(self) -> dict[str, Any]:
        """The findings as ``audit.json`` has them, without the answers."""
        return {key: as_json(part) for key, part in vars(self).items() if key != "answers"}


def audit_model(network: nn.Module, data: BiasedDataset, *, name: str, seed: int) -> ModelFinding:
    """Audit a trained network on a split; the network stays as it is.

    A model that gives no features is audited without them, and the findings say so.
    """
    probabilities, features = _answered(network, data)
    confidence, answers = probabilities.max(1)
    sure = (answers != data.targets) & (confidence >= CONFIDENCE_LIMIT)
    return ModelFinding(
        name=name,
        split=data.split,
        hash=data.hash,
        features=tuple(_corrected([_probed(data, a, features, seed) for a in data.attributes])),
        flips=tuple(flip_rates(network, data, seed=seed)),
        confident_errors=tuple(_by_group(data, sure)),
        overall_errors=share_of(sure, data.cluster),
        design_effect=1.0 if data.cluster is None else design_effect(sure, data.cluster),
        slices=find_slices(features, answers, data, seed=seed),
        answers=tuple(answers.tolist()),
    )


def _answered(network: nn.Module, data: BiasedDataset) -> tuple[Tensor, Tensor | None]:
    """Probabilities (n, classes), and features (n, D) where the model gives them."""
    passed = [output for _, output in evaluation_pass(network, batches_for(network, data))]
    logits = torch.cat([logits_of(output, data).float().cpu() for output in passed])
    features = [getattr(output, "features", None) for output in passed]
    given = [each.float().cpu() for each in features if each is not None]
    return logits.softmax(1), torch.cat(given) if len(given) == len(passed) else None


def _probed(data: BiasedDataset, name: str, features: Tensor | None, seed: int) -> FeatureFinding:
    if features is None:
        return FeatureFinding(name, reason="the model gives no features")
    values = data.attributes[name]
    rows = (values != UNKNOWN).nonzero().squeeze(1)
    cluster = None if data.cluster is None else data.cluster[rows]
    rows = rows[usable(values[rows], cluster)]
    cluster = None if data.cluster is None else data.cluster[rows]
    values, features = values[rows], features[rows]
    if num_present(values) < 2:
        return FeatureFinding(name, reason="fewer than two of its values have two samples or more")
    if not standardized(features).any():
        return FeatureFinding(name, reason="the features are the same for every sample")
    found = probe(
        features, values, seed=seed_for(seed, "features", name), given=data.targets[rows],
        permutations=enough_permutations(_PERMUTATIONS, tests=len(data.attributes)),
        cluster=cluster,
    )  # fmt: skip
    chance = 1 / num_present(values)
    return FeatureFinding(name, found.balanced_accuracy, found.control, chance, found.p)


def _corrected(found: list[FeatureFinding]) -> Iterator[FeatureFinding]:
    corrected = iter(holm([finding.p for finding in found if finding.p is not None]))
    for finding in found:
        yield finding if finding.p is None else finding._replace(p_corrected=next(corrected))


def _by_group(data: BiasedDataset, sure: Tensor) -> Iterator[ConfidentErrors]:
    for target, class_name in enumerate(data.classes):
        of_class = data.targets == target
        if not data.attributes and of_class.any():
            yield ConfidentErrors(None, class_name, None, _share(data, sure, of_class))
        for name, column in data.attributes.items():
            for value, value_name in enumerate(data.values[name]):
                group = of_class & (column == value)
                if group.any():
                    yield ConfidentErrors(name, class_name, value_name, _share(data, sure, group))


def _share(data: BiasedDataset, sure: Tensor, group: Tensor) -> Estimate:
    return share_of(sure[group], None if data.cluster is None else data.cluster[group])

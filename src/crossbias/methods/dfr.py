"""DFR: the last layer of a plainly trained network, trained again on group-balanced samples."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.functional import sparse_logistic_regression
from crossbias.methods.erm import ERM
from crossbias.methods.symptoms import class_share_symptoms
from crossbias.networks.network import Network
from crossbias.parameters import Count, Positive
from crossbias.runs.health import Symptom
from crossbias.train.evaluation import batches_for, evaluation_pass
from crossbias.train.method import Method, Supervision
from crossbias.types import UNKNOWN

if TYPE_CHECKING:
    from crossbias.train.run import Run

# What a last layer learns from fewer samples of a group than this is mostly chance.
_LEAST_OF_GROUP = 10

_NAMED = 6  # groups in a sentence

_NUMBERS_TOGETHER = 2**25  # features of several draws that are held at once, 256 MiB


class _Samples(NamedTuple):
    """Standardized features of samples whose group is known, on the CPU."""

    features: Tensor  # (n, D)
    target: Tensor  # (n,)
    group: Tensor  # (n,)

    def at(self, rows: Tensor) -> "_Samples":
        return _Samples(*(part[rows] for part in self))


@dataclass(kw_only=True)
class DFR(Method):
    """Deep feature reweighting (Kirichenko et al., ICLR 2023), on validation data.

    A network is trained plainly. Its last layer is then replaced by logistic regression with an
    L1 penalty on its features of the validation samples: as many of every (target, bias) group as
    the smallest one has. The weights are averaged over several such draws. The strength of the
    penalty is the one with the best worst group when half of the validation samples are fitted and
    the other half is judged. If the validation data has fewer than ten samples of any group, the
    training samples join them, as in the paper's variant on training data. A group that is still
    smaller gives all it has, and the others give ten. The run says so.

    Args:
        strengths: Values of C to choose from, the inverse of the penalty; the paper's seven.
        draws: Number of draws whose weights are averaged; 20 in the paper, as here.
    """

    name: ClassVar[str] = "dfr"
    paper: ClassVar[str] = "DFR (ICLR 2023)"
    supervision: ClassVar[Supervision] = "bias labels"
    mean_loss: ClassVar[bool] = True

    strengths: tuple[Positive, ...] = (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)
    draws: Count = 20

    def fit(self, run: "Run") -> Network:
        """Plain network, then its last layer."""
        validation = _checked(run.validation, run.data)
        for symptom in (
            *_joining_symptoms(run.data, validation),
            *_small_group_symptoms(run.data, validation),
            *class_share_symptoms(_draws(run.data, validation), run.data),
        ):
            run.warn(*symptom)
        if not self.strengths:
            raise CrossbiasError("strengths of DFR names no value; name one or more, as 1.0")
        if run.outline().head.bias is None:
            raise CrossbiasError("DFR needs a network whose last layer has a bias; give it one")
        network = run.train(ERM())
        classes, features = network.head.weight.shape
        head = run.stage(
            "head", lambda: self._head(run, network, validation), shape=(classes, features + 1)
        )
        with torch.no_grad():
            network.head.weight.copy_(head[:, :-1])
            network.head.bias.copy_(head[:, -1])
        return network

    def _head(self, run: "Run", network: Network, validation: BiasedDataset) -> Tensor:
        """Weights and biases of the last layer, (classes, D + 1) float32."""
        features = run.score(network, lambda _, output: output.features).cpu()[run.data.index]
        mean, deviation = features.double().mean(0), features.double().std(0, correction=0)
        deviation = torch.where(deviation > 0, deviation, 1.0)
        known = validation.biases != UNKNOWN
        joined = _joining(run.data, validation)
        own = torch.cat([_features(network, validation)[known], features[joined].double()])
        samples = _Samples(
            (own - mean) / deviation,
            torch.cat([validation.targets[known], run.data.targets[joined]]),
            torch.cat([validation.groups[known], run.data.groups[joined]]),
        )
        strength = self._chosen(samples, validation.num_classes, _generator(run, "strength"))
        weight, bias = _averaged(
            samples, validation.num_classes, strength, self.draws, _generator(run, "draws")
        )
        run.keep("head", {"strength": strength, "weights that are not 0": int((weight != 0).sum())})
        # The head sees features that are not standardized.
        weight = weight / deviation
        return torch.cat([weight, (bias - weight @ mean)[:, None]], 1).float()

    def _chosen(self, samples: _Samples, classes: int, generator: torch.Generator) -> float:
        """The strength with the best worst group, from two halves of each group."""
        fitted, judged = _halves(samples, generator)
        part = fitted.at(_balanced(fitted.group, generator))

        def worst_group(strength: float) -> float:
            weight, bias = sparse_logistic_regression(
                part.features, part.target, classes=classes, strength=strength
            )
            right = (judged.features @ weight.T + bias).argmax(1) == judged.target
            groups = judged.group.bincount()
            shares = judged.group[right].bincount(minlength=len(groups)) / groups
            return float(shares[groups > 0].min())

        return max(self.strengths, key=worst_group)


def _checked(validation: BiasedDataset | None, train: BiasedDataset) -> BiasedDataset:
    """The validation data; refused where there is nothing to fit a last layer to."""
    if validation is None or not validation.has_bias_labels:
        raise CrossbiasError(
            "DFR needs validation data with bias labels, on which it trains the last layer; give "
            "the data a validation split, or use group-balanced, which uses training samples"
        )
    if validation.values[validation.bias or ""] != train.values[train.bias or ""]:
        raise CrossbiasError(
            f"the bias of the validation data is {validation.bias} with the values "
            f"{', '.join(validation.values[validation.bias or ''])}, that of the training data "
            f"{train.bias} with {', '.join(train.values[train.bias or ''])}; DFR compares groups, "
            f"so give both the same list of values"
        )
    return validation


def _few(train: BiasedDataset, validation: BiasedDataset) -> Tensor:
    """Which groups of the training data have too few validation samples, (classes, biases)."""
    return (validation.counts() < _LEAST_OF_GROUP) & (train.counts() > 0)


def _joining(train: BiasedDataset, validation: BiasedDataset) -> Tensor:
    """Which training samples are fitted too, (n,) bool.

    Those of all groups or of none: features that the network knows by heart differ from others,
    and the last layer would tell groups apart by that.
    """
    return (train.biases != UNKNOWN) & _few(train, validation).any()


def _fitted(train: BiasedDataset, validation: BiasedDataset) -> Tensor:
    """How many samples of each group the last layer may be fitted to, (classes, biases)."""
    own = validation.counts()
    return own + train.counts() if _few(train, validation).any() else own


def _draws(train: BiasedDataset, validation: BiasedDataset) -> Tensor:
    """How often each training sample would be drawn if groups were drawn as for the last layer."""
    counts, own = _fitted(train, validation), train.counts()
    share = counts.clamp(max=_most(counts)) / own.clamp(min=1)
    drawn = share[train.targets, train.biases.clamp(min=0)] * (train.biases != UNKNOWN)
    return torch.zeros(train.full_size).index_copy(0, train.index, drawn)


def _joining_symptoms(train: BiasedDataset, validation: BiasedDataset) -> Iterator[Symptom]:
    few = _few(train, validation)
    if few.any():
        yield Symptom(
            "groups missing in validation",
            f"Some groups have fewer than {_LEAST_OF_GROUP} samples in the validation data: "
            f"{_named_groups(train, few, validation.counts())}. So the last layer was fitted to "
            f"the training samples of all groups too. The network knows these, which makes them "
            f"look easier than new ones.",
            "Put more samples of these groups into the validation data, or compare with "
            "group-balanced.",
        )


def _small_group_symptoms(train: BiasedDataset, validation: BiasedDataset) -> Iterator[Symptom]:
    counts = _fitted(train, validation)
    small = (counts > 0) & (counts < _LEAST_OF_GROUP)
    if small.any():
        yield Symptom(
            "last layer fitted to few samples",
            f"Some groups have fewer than {_LEAST_OF_GROUP} samples in the validation and the "
            f"training data together: {_named_groups(train, small, counts)}. Each draw has all of "
            f"these and {_LEAST_OF_GROUP} of every other group. What the last layer learns of "
            f"such groups is mostly chance.",
            "Find more samples of these groups, or train group-balanced.",
        )


def _named_groups(data: BiasedDataset, chosen: Tensor, counts: Tensor) -> str:
    """Groups with their counts, the smallest first, and how many more there are."""
    values = data.values[data.bias or ""]
    found = sorted((int(counts[row, column]), row, column) for row, column in chosen.nonzero())
    named = [
        f"{data.classes[row]} / {values[column]} ({count})" for count, row, column in found[:_NAMED]
    ]
    more = [f"{len(found) - _NAMED} more"] if len(found) > _NAMED else []
    return ", ".join([*named, *more])


def _features(network: Network, data: BiasedDataset) -> Tensor:
    found = evaluation_pass(network, batches_for(network, data))
    return torch.cat([output.features.double().cpu() for _, output in found])


def _generator(run: "Run", purpose: str) -> torch.Generator:
    return torch.Generator().manual_seed(run.seed("dfr", purpose))


def _balanced(group: Tensor, generator: torch.Generator) -> Tensor:
    """Random rows, as many of every group as the smallest one has, or ten where there are."""
    shuffled, sizes = torch.randperm(len(group), generator=generator), group.bincount()
    present, most = sizes.nonzero().squeeze(1).tolist(), _most(sizes)
    return torch.cat([shuffled[group[shuffled] == number][:most] for number in present])


def _most(sizes: Tensor) -> int:
    """How many samples of a group a draw has at most."""
    return max(int(sizes[sizes > 0].min()), _LEAST_OF_GROUP)


def _halves(samples: _Samples, generator: torch.Generator) -> tuple[_Samples, _Samples]:
    """Random halves of every group; the first half has the odd sample."""
    shuffled = torch.randperm(len(samples.group), generator=generator)
    order = shuffled[samples.group[shuffled].argsort(stable=True)]
    starts = samples.group.bincount().cumsum(0) - samples.group.bincount()
    place = torch.arange(len(order)) - starts[samples.group[order]]
    return samples.at(order[place % 2 == 0]), samples.at(order[place % 2 == 1])


def _averaged(
    samples: _Samples, classes: int, strength: float, draws: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Mean weights and biases over group-balanced draws, solved together as far as they fit."""
    rows = torch.stack([_balanced(samples.group, generator) for _ in range(draws)])
    together = max(1, _NUMBERS_TOGETHER // (rows.shape[1] * samples.features.shape[1]))
    found = []
    for first in range(0, draws, together):
        part = samples.at(rows[first : first + together])  # (some draws, n, D)
        found.append(
            sparse_logistic_regression(
                part.features, part.target, classes=classes, strength=strength
            )
        )
    weights, biases = zip(*found, strict=True)
    return torch.cat(weights).mean(0), torch.cat(biases).mean(0)

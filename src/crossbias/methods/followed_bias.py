"""Whether the features of a network follow the bias rather than the class."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.runs.health import Symptom
from crossbias.train.data_symptoms import conflicting_validation
from crossbias.train.evaluation import batches_for, evaluation_pass
from crossbias.types import UNKNOWN, Batch, Output

if TYPE_CHECKING:
    from crossbias.train.run import Run

# Between runs that gained 10 points or less on conflicting samples (.42 and more) and runs that
# gained more, or had nothing to gain (.38 and less): docs/studies/end.md.
_MOST = 0.4

# Each of them makes a pair with every other sample, so fewer are enough than for an accuracy.
_LEAST_CONFLICTING = 10


class Similarities(NamedTuple):
    """Mean cosines of the features of two samples from different or the same groups."""

    same: float  # of one class and one bias value
    same_class: float  # of one class and different bias values
    same_bias: float  # of one bias value and different classes
    different: float

    @property
    def followed(self) -> float:
        """From -1, where features show nothing but the class, to 1, nothing but the bias."""
        return (self.same_bias - self.same_class) / (self.same - self.different)


def followed_bias_symptoms(run: "Run", network: torch.nn.Module, remedy: str) -> Iterator[Symptom]:
    """Whether features still follow the bias after a method should have removed it from them.

    Validation samples are looked at where enough of them conflict, or else training samples, which
    the network may know by heart. With several processes it is this one's share of them.

    Args:
        run: The run; its bias labels are read for this alone.
        network: What was trained.
        remedy: What to change, as a whole sentence.
    """
    from crossbias.train.devices import unwrapped  # brings Fabric

    data, validation, network = run.data, run.validation, unwrapped(network)
    if not data.has_bias_labels or not data.alignment().any():
        return
    found, kind, batches = data, "training", run.batches()
    if validation is not None and validation.has_bias_labels:
        conflicting = int(conflicting_validation(data, validation).sum())
        if conflicting >= _LEAST_CONFLICTING:
            found, kind, batches = validation, "validation", batches_for(network, validation)
    alike = similarities(evaluation_pass(network, batches), found)
    if alike is not None and alike.followed > _MOST:
        yield Symptom(
            "features follow the bias",
            f"Two {kind} samples with the same {found.bias} and different classes have more "
            f"similar features (mean cosine {alike.same_bias:.2f}) than two of one class with "
            f"different {found.bias} ({alike.same_class:.2f}): the network still follows "
            f"{found.bias}.",
            remedy,
        )


def similarities(
    outputs: Iterable[tuple[Batch, Output]], data: BiasedDataset
) -> Similarities | None:
    """Mean cosines, in which every pair of groups counts the same.

    Args:
        outputs: Batches with what a network gives for them.
        data: Where they come from.

    Returns:
        ``None`` where a kind of pairs does not occur, or all pairs are equally similar.
    """
    numbers = torch.unique(data.groups[data.biases != UNKNOWN])  # (G,)
    counts, sums = torch.zeros(len(numbers), dtype=torch.float64), torch.zeros(0)
    for batch, output in outputs:
        features = F.normalize(output.features.double().cpu())
        target, bias = batch.target.cpu(), batch.bias.cpu()
        known = (bias != UNKNOWN) & (features != 0).any(1)
        place = torch.searchsorted(numbers, (target * data.num_biases + bias)[known])
        if not len(sums):
            sums = features.new_zeros(len(numbers), features.shape[1])
        sums.index_add_(0, place, features[known])
        counts += place.bincount(minlength=len(numbers))
    return _from_sums(sums, counts, numbers // data.num_biases, numbers % data.num_biases)


def _from_sums(sums: Tensor, counts: Tensor, target: Tensor, bias: Tensor) -> Similarities | None:
    """Sums over pairs of groups, as differences of squared sums.

    Args:
        sums: ``(G, D)`` of the unit features of each group.
        counts: ``(G,)`` its samples.
        target: ``(G,)`` its class.
        bias: ``(G,)`` its bias value.
    """
    seen, several = counts > 0, counts > 1
    means, target, bias = sums[seen] / counts[seen, None], target[seen], bias[seen]
    by_class, class_pairs = _squares(means, target)
    by_bias, bias_pairs = _squares(means, bias)
    everything, pairs = _squares(means, torch.zeros_like(target))
    own, groups = float(means.square().sum()), len(means)
    within = (sums[several].square().sum(1) - counts[several]) / (counts * (counts - 1))[several]
    different = pairs - class_pairs - bias_pairs + groups
    if not (len(within) and class_pairs > groups and bias_pairs > groups and different):
        return None
    found = Similarities(
        float(within.mean()),
        (by_class - own) / (class_pairs - groups),
        (by_bias - own) / (bias_pairs - groups),
        (everything - by_class - by_bias + own) / different,
    )
    return found if found.same > found.different else None


def _squares(means: Tensor, part: Tensor) -> tuple[float, int]:
    """Dot products of all pairs of rows with the same number, summed; and how many there are."""
    size = int(part.max()) + 1 if len(part) else 0
    summed = means.new_zeros(size, means.shape[-1]).index_add_(0, part, means)
    return float(summed.square().sum()), int(part.bincount().square().sum())

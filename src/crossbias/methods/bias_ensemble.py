"""BiasEnsemble: briefly trained biased networks tell which samples match the bias."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import percent
from crossbias.functional import refilled
from crossbias.methods.erm import BiasedERM
from crossbias.methods.symptoms import FEWEST_WRONG
from crossbias.runs.health import Symptom
from crossbias.types import Batch, Output

if TYPE_CHECKING:
    from crossbias.train.run import Run

# Most samples of biased data are aligned. An ensemble that is certain of fewer than a tenth of a
# class has not learned what they have in common.
_LEAST_CERTAIN = 0.1


class Division(NamedTuple):
    """The training set as an ensemble of biased networks sees it; masks ``(full_size,)``."""

    aligned: Tensor  # D^A, on which a biased network is trained
    candidates: Tensor  # D^BN_cand, among which bias-negative samples are found


def ensemble_certainty(run: "Run", *, members: int, steps: int, q: float) -> Tensor:
    """Train the ensemble, each member with generalized cross-entropy, and ask every member.

    The code of BiasEnsemble (Lee et al., AAAI 2023) keeps the better of two snapshots on
    validation data and asks with augmented images; here it is the last network and plain images.

    Args:
        run: The run; its data is divided.
        members: Number of networks.
        steps: Number of updates of each.
        q: Exponent of generalized cross-entropy.

    Returns:
        ``(members, full_size)`` the probability of the target where it is the prediction, else 0.
    """

    def certainty(batch: Batch, output: Output) -> Tensor:
        probability = output.logits.float().softmax(1)
        highest, prediction = probability.max(1)
        return highest * (prediction == batch.target)

    def compute() -> Tensor:
        names = [f"ensemble-{number + 1}" for number in range(members)]
        networks = (run.train(BiasedERM(q=q), name=name, steps=steps) for name in names)
        return torch.stack([run.score(network, certainty) for network in networks])

    return run.stage("ensemble", compute)


def divided(certainty: Tensor, data: BiasedDataset, *, confidence: float) -> Division:
    """Aligned samples and candidates, each by the majority of the members.

    A sample is aligned if most members answer it rightly with more than ``confidence``. It is a
    candidate if most members answer it wrongly (IE, section 3.2). The others are neither. If this
    makes fewer than a tenth of a class aligned, all of the class that most members answer rightly
    is, and the whole class if there is none: a network that was hardly shown a class would find
    all of it conflicting, and its partner would learn to answer little else.

    Args:
        certainty: ``(members, full_size)`` as ``ensemble_certainty`` gives it.
        data: The training data; rows that are not in it are neither.
        confidence: Probability above which a member is certain; .99 in BiasEnsemble.
    """
    majority, own = len(certainty) / 2, certainty[:, data.index]
    certain, right = ((own > limit).sum(0) > majority for limit in (confidence, 0.0))
    wrong = (own == 0).sum(0) > majority
    unsure = _share_of_class(certain, data) < _LEAST_CERTAIN
    chosen = torch.where(unsure[data.targets], right, certain)
    aligned, candidates = (certainty.new_zeros(data.full_size, dtype=torch.bool) for _ in range(2))
    aligned[data.index] = refilled(chosen, data.targets, data.num_classes)
    candidates[data.index] = wrong
    return Division(aligned, candidates)


def _share_of_class(chosen: Tensor, data: BiasedDataset) -> Tensor:
    """The part of each class that is chosen, (classes,); 0 for a class without samples."""
    found = torch.bincount(data.targets[chosen], minlength=data.num_classes)
    return found / torch.bincount(data.targets, minlength=data.num_classes).clamp(min=1)


def certainty_symptoms(
    certainty: Tensor, data: BiasedDataset, *, confidence: float
) -> Iterator[Symptom]:
    """Whether the ensemble divides the data at all.

    Args:
        certainty: ``(members, full_size)`` as ``ensemble_certainty`` gives it.
        data: The training data.
        confidence: Probability above which a member is certain.
    """
    majority, own = len(certainty) / 2, certainty[:, data.index]
    certain = float(((own > confidence).sum(0) > majority).float().mean())
    wrong = float(((own == 0).sum(0) > majority).float().mean())
    if certain < _LEAST_CERTAIN:
        yield Symptom(
            "ensemble sure of nothing",
            f"Most members of the ensemble are certain of only {percent(certain)} of the training "
            f"samples, so all that they answer rightly count as aligned, and conflicting samples "
            f"may be among them.",
            "Train the members longer with ensemble_length, or lower confidence.",
        )
    if wrong < FEWEST_WRONG:
        yield Symptom(
            "ensemble sure of everything",
            f"Most members of the ensemble answer {percent(1 - wrong, decimals=2)} of the training "
            f"samples rightly, so hardly any are candidates for guidance.",
            "Train the members for a shorter time with ensemble_length, or lower the rate.",
        )


def in_words(division: Division, data: BiasedDataset) -> str:
    """The division in one sentence, for the progress display."""
    aligned, candidates = (int(mask.sum()) for mask in division)
    text = f"{aligned} of {len(data)} samples count as aligned, {candidates} as candidates"
    found = data.targets[division.candidates[data.index]]
    without = [name for number, name in enumerate(data.classes) if not (found == number).any()]
    if without:
        text += f"; classes without candidates get no guidance: {', '.join(without)}"
    return text

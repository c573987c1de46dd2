"""BiasEnsemble: briefly trained biased networks tell which samples go along with the bias."""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.functional import refilled
from crossbias.methods.erm import BiasedERM
from crossbias.types import Batch, Output

if TYPE_CHECKING:
    from crossbias.train.run import Run


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
        steps: Updates of each.
        q: Of generalized cross-entropy.

    Returns:
        ``(members, full_size)`` the probability of the target where it is the prediction; 0 where
        something else is.
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

    Aligned is what most members predict rightly with more than ``confidence``. A candidate is
    what most members predict wrongly (IE, section 3.2). The rest is neither. Of a class without
    any aligned sample all samples count as aligned: a network never shown a class would take all
    of it for conflicting.

    Args:
        certainty: ``(members, full_size)`` as ``ensemble_certainty`` gives it.
        data: The training data; rows that are not in it are neither.
        confidence: Of BiasEnsemble: .99.
    """
    majority = len(certainty) / 2
    confident = (certainty > confidence).sum(0) > majority
    wrong = (certainty == 0).sum(0) > majority
    aligned, candidates = torch.zeros_like(confident), torch.zeros_like(wrong)
    aligned[data.index] = refilled(confident[data.index], data.targets, data.num_classes)
    candidates[data.index] = wrong[data.index]
    return Division(aligned, candidates)


def in_words(division: Division, data: BiasedDataset) -> str:
    """What came out, for the person who waits."""
    aligned, candidates = (int(mask.sum()) for mask in division)
    text = f"of {len(data)} samples {aligned} are taken as aligned, {candidates} as candidates"
    found = data.targets[division.candidates[data.index]]
    without = [name for number, name in enumerate(data.classes) if not (found == number).any()]
    if without:
        text += f"; without candidates, and so without guidance: {', '.join(without)}"
    return text

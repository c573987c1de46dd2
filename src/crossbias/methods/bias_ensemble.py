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

# After a few steps the mistakes of a member are random. On 537 X-rays with a planted watermark, a
# network was right on 42% of the conflicting samples after 4 steps of 180, and on none after 50.
_LEAST_STEPS = 50

# Most samples of biased data are aligned. An ensemble that is certain of fewer than a tenth has not
# learned what they have in common.
_LEAST_CERTAIN = 0.1


class Division(NamedTuple):
    """The training set as an ensemble of biased networks sees it; masks ``(full_size,)``."""

    aligned: Tensor  # D^A, on which a biased network is trained
    candidates: Tensor  # D^BN_cand, among which bias-negative samples are found


def ensemble_division(
    run: "Run", *, members: int, length: float, q: float, confidence: float
) -> Division:
    """Train an ensemble and divide the training set by what its members are certain of.

    The run warns if the ensemble does not divide the data at all.

    Args:
        run: The run; its data is divided.
        members: Number of networks.
        length: Length of each member's training. A fraction of the configured training means at
            least 50 steps, but not more than the training has.
        q: Exponent of generalized cross-entropy.
        confidence: Probability above which a member is certain.
    """
    steps = member_steps(length, run.steps)
    certainty = ensemble_certainty(run, members=members, steps=steps, q=q)
    for symptom in certainty_symptoms(certainty, run.data, confidence=confidence):
        run.warn(*symptom)
    return divided(certainty, run.data, confidence=confidence)


def in_steps(length: float, total: int) -> int:
    """A length below 1 is a fraction of the total."""
    return int(length * total if length < 1 else length)


def member_steps(length: float, total: int) -> int:
    """The length of a member's training; a fraction is not taken of a few steps only."""
    steps = in_steps(length, total)
    return max(steps, min(_LEAST_STEPS, total)) if length < 1 else steps


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

    return run.stage("ensemble", compute, shape=(members, run.data.full_size))


def divided(certainty: Tensor, data: BiasedDataset, *, confidence: float) -> Division:
    """Aligned samples and candidates, each by the majority of the members.

    A sample is aligned if most members answer it rightly with more than ``confidence``. It is a
    candidate if most members answer it wrongly (IE, section 3.2). The others are neither. If a
    class has no aligned sample, all its samples count as aligned: a network that was never shown
    a class would find all of it conflicting.

    Args:
        certainty: ``(members, full_size)`` as ``ensemble_certainty`` gives it.
        data: The training data; rows that are not in it are neither.
        confidence: Probability above which a member is certain; .99 in BiasEnsemble.
    """
    majority = len(certainty) / 2
    confident = (certainty > confidence).sum(0) > majority
    wrong = (certainty == 0).sum(0) > majority
    aligned, candidates = torch.zeros_like(confident), torch.zeros_like(wrong)
    aligned[data.index] = refilled(confident[data.index], data.targets, data.num_classes)
    candidates[data.index] = wrong[data.index]
    return Division(aligned, candidates)


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
            f"samples, so hardly any are known to be aligned.",
            "Train the members longer with ensemble_length, or lower confidence.",
        )
    if wrong < FEWEST_WRONG:
        yield Symptom(
            "ensemble sure of everything",
            f"Most members of the ensemble answer {percent(1 - wrong, decimals=2)} of the training "
            f"samples rightly, so hardly any contradict what it has learned.",
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

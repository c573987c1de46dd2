"""BiasEnsemble: briefly trained biased networks tell which samples match the bias."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import percent
from crossbias.functional import refilled
from crossbias.methods.erm import BiasedERM
from crossbias.methods.symptoms import FEWEST_WRONG, LEAST_GAP
from crossbias.runs.health import Symptom
from crossbias.train.data_symptoms import conflicting_samples
from crossbias.types import UNKNOWN, Batch, Output

if TYPE_CHECKING:
    from crossbias.train.run import Run

# After a few steps the mistakes of a member are random. On 537 X-rays with a planted watermark, a
# network was right on 42% of the conflicting samples after 4 steps of 180, and on none after 50.
LEAST_STEPS: Final = 50

CONFIDENCE: Final = 0.99
"""Probability above which a member is certain, in BiasEnsemble."""

# Most samples of biased data are aligned. Where an ensemble is certain of fewer than a tenth, its
# members are right more often than they dare to say.
_LEAST_CERTAIN = 0.1

# An ensemble must be this much of the way from chance to perfect, averaged over classes. Members
# that answer hardly anything but the larger of two classes are at .18 on our X-rays.
_LEARNED = 0.2


class Division(NamedTuple):
    """The training set as an ensemble of biased networks sees it; masks ``(full_size,)``."""

    aligned: Tensor  # D^A, on which a biased network is trained
    candidates: Tensor  # D^BN_cand, among which bias-negative samples are found


def ensemble_division(
    run: "Run",
    *,
    members: int,
    length: float,
    q: float,
    confidence: float | None,
    class_balanced: bool = False,
    least_steps: int = LEAST_STEPS,
    by_answers: bool = False,
) -> Division:
    """Train an ensemble and divide the training set by what its members are certain of.

    The run warns if the ensemble does not divide the data at all. One that is not believed makes
    all samples count as aligned, and none as a candidate.

    Args:
        run: The run; its data is divided.
        members: Number of networks.
        length: Length of each member's training. A fraction of the configured training means at
            least ``least_steps``, but not more than the training has.
        q: Exponent of generalized cross-entropy.
        confidence: Probability above which a member is certain; if not given, see ``divided``.
        class_balanced: Show the members every class equally often.
        least_steps: The fewest updates of a member whose length is a fraction.
        by_answers: Without a declared confidence, let right answers count where certainty is rare,
            and do not believe an ensemble that has learned nothing.
    """
    steps = member_steps(length, run.steps, least_steps)
    certainty = ensemble_certainty(
        run, members=members, steps=steps, q=q, class_balanced=class_balanced
    )
    by_answers = by_answers and confidence is None
    for symptom in certainty_symptoms(
        certainty, run.data, confidence=confidence, ignorable=by_answers
    ):
        run.warn(*symptom)
    if not by_answers:
        return divided(
            certainty, run.data, confidence=CONFIDENCE if confidence is None else confidence
        )
    if not _has_learned(certainty, run.data):
        aligned = torch.zeros(run.data.full_size, dtype=torch.bool)
        aligned[run.data.index] = True
        return Division(aligned, torch.zeros_like(aligned))
    return divided(certainty, run.data, confidence=None)


def in_steps(length: float, total: int) -> int:
    """A length below 1 is a fraction of the total."""
    return int(length * total if length < 1 else length)


def member_steps(length: float, total: int, least: int = LEAST_STEPS) -> int:
    """The length of a member's training; a fraction is not taken of a few steps only."""
    steps = in_steps(length, total)
    return max(steps, min(least, total)) if length < 1 else steps


def ensemble_certainty(
    run: "Run", *, members: int, steps: int, q: float, class_balanced: bool = False
) -> Tensor:
    """Train the ensemble, each member with generalized cross-entropy, and ask every member.

    The code of BiasEnsemble (Lee et al., AAAI 2023) keeps the better of two snapshots on
    validation data and asks with augmented images; here it is the last network and plain images.

    Args:
        run: The run; its data is divided.
        members: Number of networks.
        steps: Number of updates of each.
        q: Exponent of generalized cross-entropy.
        class_balanced: Show every class equally often. Else a small class looks hard as a whole.

    Returns:
        ``(members, full_size)`` the probability of the target where it is the prediction, else 0.
    """

    def certainty(batch: Batch, output: Output) -> Tensor:
        probability = output.logits.float().softmax(1)
        highest, prediction = probability.max(1)
        return highest * (prediction == batch.target)

    def compute() -> Tensor:
        names = [f"ensemble-{number + 1}" for number in range(members)]
        config = replace(run.config, sampling="class-balanced") if class_balanced else run.config
        networks = (
            run.train(BiasedERM(q=q), name=name, steps=steps, config=config) for name in names
        )
        return torch.stack([run.score(network, certainty) for network in networks])

    return run.stage("ensemble", compute, shape=(members, run.data.full_size))


def divided(certainty: Tensor, data: BiasedDataset, *, confidence: float | None) -> Division:
    """Aligned samples and candidates, each by the majority of the members.

    A sample is aligned if most members answer it rightly with more than ``confidence``. It is a
    candidate if most members answer it wrongly (IE, section 3.2). The others are neither. If a
    class has no aligned sample, all its samples count as aligned: a network that was never shown
    a class would find all of it conflicting.

    Args:
        certainty: ``(members, full_size)`` as ``ensemble_certainty`` gives it.
        data: The training data; rows that are not in it are neither.
        confidence: Probability above which a member is certain. If not given, .99 as in
            BiasEnsemble; and in a class of which the ensemble is certain of fewer than a tenth,
            all that most members answer rightly. A short training is right long before it is
            certain.
    """
    own = certainty[:, data.index]
    majority, target = len(own) / 2, data.targets
    chosen = (own > (CONFIDENCE if confidence is None else confidence)).sum(0) > majority
    if confidence is None:
        unsure = _by_class(chosen, data) < _LEAST_CERTAIN
        chosen = torch.where(unsure[target], (own > 0).sum(0) > majority, chosen)
    aligned = torch.zeros(data.full_size, dtype=torch.bool, device=certainty.device)
    candidates = torch.zeros_like(aligned)
    aligned[data.index] = refilled(chosen, target, data.num_classes)
    candidates[data.index] = (own == 0).sum(0) > majority
    return Division(aligned, candidates)


def certainty_symptoms(
    certainty: Tensor, data: BiasedDataset, *, confidence: float | None, ignorable: bool = False
) -> Iterator[Symptom]:
    """Whether the ensemble divides the data at all.

    Args:
        certainty: ``(members, full_size)`` as ``ensemble_certainty`` gives it.
        data: The training data.
        confidence: Probability above which a member is certain, if it was declared.
        ignorable: Whether an ensemble that has learned nothing is ignored.
    """
    majority, own = len(certainty) / 2, certainty[:, data.index]
    wrong = float(((own == 0).sum(0) > majority).float().mean())
    if not _has_learned(certainty, data):
        right, classes = _accuracy(certainty, data), int((data.targets.bincount() > 0).sum())
        ignored = ", and IE trains without guidance" if ignorable else ""
        yield Symptom(
            "ensemble learned nothing",
            f"Most members of the ensemble are right on {percent(right)} of a class, averaged over "
            f"the classes, where chance gives {percent(1 / classes)}: they have learned no "
            f"shortcut, so what they get wrong says nothing{ignored}.",
            "Train the members longer with ensemble_length, or with a higher train.lr.",
        )
    else:
        yield from _preference_symptoms(own, data)
        if confidence is not None:
            yield from _certain_symptoms(own, confidence)
    if wrong < FEWEST_WRONG:
        yield Symptom(
            "ensemble sure of everything",
            f"Most members of the ensemble answer {percent(1 - wrong, decimals=2)} of the training "
            f"samples rightly, so hardly any contradict what it has learned.",
            "Train the members for a shorter time with ensemble_length, or lower the rate.",
        )


def _preference_symptoms(own: Tensor, data: BiasedDataset) -> Iterator[Symptom]:
    """Whether the members follow the bias; its labels are read for this alone.

    Aligned and conflicting samples are compared within classes: an ensemble that prefers a class
    whose samples are mostly aligned does not follow the bias for that.
    """
    right = ((own > 0).sum(0) > len(own) / 2).cpu()
    conflicting = conflicting_samples(data, data.alignment())
    aligned = (data.biases != UNKNOWN) & ~conflicting
    numbers = data.targets[conflicting].bincount(minlength=data.num_classes)
    numbers = numbers * (data.targets[aligned].bincount(minlength=data.num_classes) > 0)
    if not numbers.any():
        return
    weights = numbers / numbers.sum()  # the conflicting samples of each class
    on_aligned, on_conflicting = (
        float((weights * _shares(right[kind], data.targets[kind], data.num_classes)).sum())
        for kind in (aligned, conflicting)
    )
    if on_aligned - on_conflicting < LEAST_GAP:
        yield Symptom(
            "ensemble is not biased",
            f"Most members of the ensemble are right on {percent(on_conflicting)} of the training "
            f"samples that conflict with {data.bias} and on {percent(on_aligned)} of the others of "
            f"the same classes: they do not follow {data.bias}, so the samples that they get wrong "
            f"are hard for another reason, and training by them may cost accuracy.",
            f"Look at plain training: if it does not follow {data.bias} either, there is nothing "
            f"to repair. Otherwise train the members longer with ensemble_length.",
        )


def _shares(chosen: Tensor, target: Tensor, classes: int) -> Tensor:
    """The share of each class that is chosen, (classes,); 0 for one without samples."""
    sizes = target.bincount(minlength=classes)
    return target[chosen].bincount(minlength=classes) / sizes.clamp(min=1)


def _certain_symptoms(own: Tensor, confidence: float) -> Iterator[Symptom]:
    certain = float(((own > confidence).sum(0) > len(own) / 2).float().mean())
    if certain < _LEAST_CERTAIN:
        yield Symptom(
            "ensemble sure of nothing",
            f"Most members of the ensemble are certain of only {percent(certain)} of the training "
            f"samples, so hardly any are known to be aligned.",
            "Leave confidence out, or lower it; or train the members longer with ensemble_length.",
        )


def _has_learned(certainty: Tensor, data: BiasedDataset) -> bool:
    chance = 1 / int((data.targets.bincount() > 0).sum())
    return _accuracy(certainty, data) >= chance + _LEARNED * (1 - chance)


def _accuracy(certainty: Tensor, data: BiasedDataset) -> float:
    """How often most members are right, averaged over the classes that there are."""
    right = (certainty[:, data.index] > 0).sum(0) > len(certainty) / 2
    present = data.targets.bincount(minlength=data.num_classes) > 0
    return float(_by_class(right, data)[present].mean())


def _by_class(chosen: Tensor, data: BiasedDataset) -> Tensor:
    """The share of each class that is chosen, (classes,)."""
    return _shares(chosen.cpu(), data.targets, data.num_classes)


def in_words(division: Division, data: BiasedDataset) -> str:
    """The division in one sentence, for the progress display."""
    aligned, candidates = (int(mask.sum()) for mask in division)
    text = f"{aligned} of {len(data)} samples count as aligned, {candidates} as candidates"
    found = data.targets[division.candidates[data.index]]
    without = [name for number, name in enumerate(data.classes) if not (found == number).any()]
    if without:
        text += f"; classes without candidates get no guidance: {', '.join(without)}"
    return text

"""The summary of a report: a few sentences computed from the comparison, with their uncertainty."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from crossbias.formatting import percent
from crossbias.runs.compare import Comparison
from crossbias.runs.rows import Number, Row

SUPERVISION: Final = {
    "none": "knew nothing about the bias",
    "kind of bias": "knew only the kind of bias",
    "bias labels": "used bias labels",
}
"""What a method knew about the bias, as the rest of a sentence about it."""

SELECTION: Final = {
    "last": "The model after the last epoch; nothing was chosen.",
    "validation-accuracy": (
        "The epoch with the highest accuracy on the validation split, without its bias labels."
    ),
    "validation-worst-group": (
        "The epoch with the highest worst-group accuracy on the validation split, "
        "which used its bias labels."
    ),
}
"""How the model was chosen among the epochs. None of the rules sees the test split."""


class Standing(NamedTuple):
    """A row, and how well it does where the bias misleads."""

    row: Row
    score: Number  # on conflicting samples, or on all samples where none is known to conflict

    @property
    def labeled(self) -> bool:
        """Whether bias labels were used, in training or in choosing the model."""
        chosen = self.row.selection == "validation-worst-group"
        return self.row.supervision == "bias labels" or chosen

    @property
    def knowledge(self) -> str:
        """What the method knew about the bias, after "which"."""
        known = supervision(self.row.supervision)
        only_chosen = self.labeled and self.row.supervision != "bias labels"
        return known + (" but was chosen by bias labels" if only_chosen else "")

    @property
    def interval(self) -> str:
        """The limits of the score, and over how many seeds it is a mean."""
        mean = f"mean of {len(self.row.runs)} seeds, " if self.row.runs[1:] else ""
        return f"{mean}95% interval {percent(self.score.low)} to {percent(self.score.high)}"


def summary(comparison: Comparison) -> list[Markup]:
    """Two paragraphs: what plain training does, and what does best where the bias misleads."""
    conflicting = comparison.runs[0].test.conflicting
    known = conflicting is not None and conflicting.n > 0
    metric = "conflicting" if known else "overall"
    where = "on conflicting samples" if known else "over all test samples"
    baseline = comparison.baseline
    plain = _standing(baseline, metric) if baseline.runs[0].method == "erm" else None
    if known:
        first = _shortcut_sentence(plain, comparison.runs[0].bias or "bias")
    else:
        missing = "bias labels" if conflicting is None else "conflicting samples"
        first = _unlabeled_sentence(plain, missing)
    return [first, _best_sentence(comparison, plain, metric, where)]


def _standing(row: Row, metric: str) -> Standing:
    score = row.numbers[metric]
    assert score is not None  # the split has samples of this kind, the same for every run
    return Standing(row, score)


def _shortcut_sentence(plain: Standing | None, bias: str) -> Markup:
    if plain is None:
        return Markup(
            "Plain training (ERM) is not among these runs, so what the methods gain is not known."
        )
    aligned = plain.row.numbers["aligned"]
    if aligned is None:
        return Markup(
            "In every test sample, {} and class conflict; plain training is right on {} of them."
        ).format(bias, _mean(plain.row, plain.score))
    shortcut = aligned.low > plain.score.high
    sentence = Markup(
        "Plain training {}: it is right on {} of the test samples whose {} matches their class, "
        "{} {} of those where the two conflict."
    ).format(
        "takes the shortcut" if shortcut else "shows no clear shortcut",
        _mean(plain.row, aligned),
        bias,
        "but on only" if shortcut else "and on",
        _mean(plain.row, plain.score),
    )
    unclear = not shortcut and aligned.value > plain.score.value
    return sentence + (" The 95% intervals overlap." if unclear else "")


def _unlabeled_sentence(plain: Standing | None, missing: str) -> Markup:
    first = Markup("The test split has no {}, so accuracy is given over all its samples").format(
        missing
    )
    if plain is None:
        return first + "."
    return first + Markup("; plain training is right on {} of them.").format(
        _mean(plain.row, plain.score)
    )


def _best_sentence(
    comparison: Comparison, plain: Standing | None, metric: str, where: str
) -> Markup:
    rows = [row for row in comparison.rows if row.runs[0].method != "erm"]
    if not rows:
        return Markup("No other method is in this report to compare it with.")
    others = [_standing(row, metric) for row in rows]
    best = max(others, key=lambda standing: standing.score.value)
    parts = (best.row.label, best.knowledge, percent(best.score.value), best.interval)
    if plain is not None and best.score.value <= plain.score.value:
        return Markup(
            "No method does better {} than plain training: the best, {}, which {}, is right on "
            "<strong>{}</strong> ({})."
        ).format(where, *parts)
    sentence = Markup(
        "<strong>{}</strong>, which {}, does best {}, with <strong>{}</strong> ({})."
    ).format(*parts[:2], where, *parts[2:])
    gain = "" if plain is None else _gain_sentence(comparison, plain, best, metric)
    return sentence + gain + _without_labels(others, best)


def _gain_sentence(comparison: Comparison, plain: Standing, best: Standing, metric: str) -> str:
    """Whether the best is clearly better than plain training, by the paired gain alone."""
    value, low, high, _ = comparison.gains[best.row.label][metric]
    several = sum(row.runs[0].method == "erm" for row in comparison.rows) > 1
    against = plain.row.label if several else "plain training"
    limits = f"95% interval {100 * low:+.1f} to {100 * high:+.1f}"
    if low <= 0:
        return (
            f" That is not clearly more than {against}: on the same samples, the gain is "
            f"{100 * value:+.1f} points ({limits})."
        )
    one_seed = not (plain.row.runs[1:] and best.row.runs[1:])
    start = "For these trained models, that is" if one_seed else "That is"
    return f" {start} clearly more than {against}: {100 * value:+.1f} points ({limits})."


def _without_labels(others: Sequence[Standing], best: Standing) -> Markup:
    """The best of those that had no bias labels, where the best of all had them."""
    unlabeled = [standing for standing in others if not standing.labeled]
    if not best.labeled or not unlabeled:
        return Markup("")
    second = max(unlabeled, key=lambda standing: standing.score.value)
    return Markup(" Without bias labels, <strong>{}</strong> does best, with {}.").format(
        second.row.label, _mean(second.row, second.score)
    )


def _mean(row: Row, number: Number) -> Markup:
    mean = f" (mean of {len(row.runs)} seeds)" if row.runs[1:] else ""
    return Markup("<strong>{}</strong>{}").format(percent(number.value), mean)


def supervision(code: str) -> str:
    """What a method knew about the bias, after "which"; an unknown code is shown as it is."""
    return SUPERVISION.get(code, f"used: {code}")


def selection(rule: str) -> str:
    """How the model was chosen; an unknown rule is shown as it is."""
    return SELECTION.get(rule, rule)

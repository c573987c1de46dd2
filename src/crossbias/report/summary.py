"""The summary of a report: a few sentences computed from the comparison, with their uncertainty."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from crossbias.formatting import count, first_few, p_value, percent, short
from crossbias.report.tables import worst_group_name
from crossbias.report.training_data import data_title, main_metric, training_groups
from crossbias.runs.compare import Comparison
from crossbias.runs.gains import right_answers
from crossbias.runs.read import FinishedRun
from crossbias.runs.rows import Number, Row
from crossbias.types import UNKNOWN
from crossbias.verify import Estimate
from crossbias.verify.between_runs import gap_within_classes
from crossbias.verify.independence import CLEAR

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
    "validation-loss": (
        "The epoch with the lowest loss on the validation split, without its bias labels."
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
        return mean + _interval(self.score)


def summary(comparison: Comparison) -> list[Markup]:
    """Three paragraphs: what is predicted, what plain training does, and which method is best."""
    first = comparison.runs[0]
    metric = main_metric(first)
    known = metric == "conflicting"
    where = "on conflicting samples" if known else "over all test samples"
    baseline = comparison.baseline
    plain = _standing(baseline, metric) if baseline.runs[0].method == "erm" else None
    if known:
        told = _shortcut_sentence(plain, first.bias or "bias")
    else:
        told = _overall_sentence(plain, _missing(first))
    best = _best_sentence(comparison, plain, metric, where)
    worse = _worse_sentence(comparison, plain, metric, where)
    return [_task_sentences(first), told, best + worse]


def _task_sentences(run: FinishedRun) -> Markup:
    """What the models predict, which bias is in question, and how strong it is in training."""
    task = Markup("The models predict <strong>{}</strong> ({}) in <strong>{}</strong>").format(
        run.config["data"].get("target") or "the class",
        _listed(run.test.classes),
        data_title(run.config["data"]["name"]),
    )
    if run.bias is None:
        return task + "; no attribute is named as a possible shortcut."
    bias = Markup("; the possible shortcut is <strong>{}</strong> ({}).").format(
        run.bias, _listed(run.test.biases)
    )
    groups = training_groups(run)
    if groups is None:
        return task + bias
    share = percent(groups.aligned / groups.total)
    training = Markup(" In the training data, {} matches the class in {} of {} samples ({}).")
    counted = training.format(run.bias, count(groups.aligned), count(groups.total), share)
    over = "" if run.labels is None or run.labels.cluster is None else " over clusters"
    doubt = Markup(
        " This association may be due to chance ({}, chi-square test{}): the data may have no such "
        "bias."
    ).format(p_value(groups.p), over)
    return task + bias + counted + (doubt if groups.p > CLEAR else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(first_few([short(name) for name in names], most=6))


def _standing(row: Row, metric: str) -> Standing:
    score = row.numbers[metric]
    assert score is not None  # the split has samples of this kind, the same for every run
    return Standing(row, score)


def gap_of(row: Row) -> Estimate:
    """How much higher a row's accuracy is on aligned than on conflicting samples of a class."""
    judged, cells = row.runs[0].judged, row.metrics[0].cells
    bias = judged.attribute(row.runs[0].bias)
    known = bias != UNKNOWN
    aligned = cells.aligned[cells.place_of(judged.target, bias)]
    return gap_within_classes(
        right_answers(row)[:, known], judged.target[known], aligned[known],
        cluster=None if judged.cluster is None else judged.cluster[known],
    )  # fmt: skip


def _shortcut_sentence(plain: Standing | None, bias: str) -> Markup:
    if plain is None:
        return Markup(
            "Plain training (ERM) is not among these runs, so what the methods gain is not known."
        )
    aligned = plain.row.numbers["aligned"]
    if aligned is None:
        return Markup(
            "In every test sample, {} and class conflict; plain training is right on {} of them."
        ).format(bias, _mean(plain.row, plain.score)) + _worst_sentence(plain.row)
    gap = gap_of(plain.row)
    shortcut = bool(gap.n) and gap.low > 0
    sentence = Markup(
        "{} {} where the shortcut misleads: it is right on {} of the test samples whose {} matches "
        "their class, {} {} of those where the two conflict."
    ).format(
        "Plain training" if plain.row.runs[1:] else "In this one run, plain training",
        "is clearly worse" if shortcut else "is not clearly worse",
        _mean(plain.row, aligned),
        bias,
        "but on only" if shortcut else "and on",
        _strong(plain.score),
    )
    within = " No class has samples of both kinds, so the difference may be one between classes."
    if gap.n:
        chance = "" if shortcut else ", which may be chance"
        within = f" Within a class, the difference is {_points(gap)}{chance}."
    differs = aligned.value > plain.score.value
    return sentence + (within if differs or shortcut else "") + _worst_sentence(plain.row)


def _worst_sentence(row: Row) -> Markup:
    """The lowest accuracy of a group, and which group it is where all runs of the row agree."""
    worst = row.numbers["worst_group"]
    if worst is None:
        return Markup("")
    group = worst_group_name(row)
    named = Markup(" ({})").format(group) if group else ""
    return Markup(" In the {}{}, it is right on {} ({}).").format(
        row.metrics[0].worst_of, named, _strong(worst), _interval(worst)
    )


def _missing(run: FinishedRun) -> Markup:
    """Why aligned and conflicting samples cannot be told apart."""
    if run.test.worst_group is None:
        return Markup("The test split has no bias labels")
    if not run.test.aligned_groups:
        return Markup("Which groups were aligned in training is not known")
    if not run.test.associated:
        return Markup("The training data associates no {} with a class").format(run.bias)
    return Markup("The test split has no conflicting samples")


def _overall_sentence(plain: Standing | None, missing: Markup) -> Markup:
    first = missing + ", so accuracy is given over all test samples"
    if plain is None:
        return first + "."
    told = Markup("; plain training is right on {} of them.").format(_mean(plain.row, plain.score))
    return first + told + _worst_sentence(plain.row)


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
            "No method is more accurate {} than plain training: the best, {}, which {}, is right "
            "on <strong>{}</strong> ({})."
        ).format(where, *parts)
    sentence = Markup(
        "<strong>{}</strong>, which {}, has the highest accuracy {}, <strong>{}</strong> ({})."
    ).format(*parts[:2], where, *parts[2:])
    gain = "" if plain is None else _gain_sentence(comparison, plain, best, metric)
    worst = _worst_sentence(best.row)
    return sentence + gain + worst + _without_labels(comparison, plain, others, best, metric)


def _gain_sentence(comparison: Comparison, plain: Standing, best: Standing, metric: str) -> str:
    """Whether the best is clearly better than plain training, by the paired gain alone."""
    gain = comparison.gains[best.row.label][metric]
    several = sum(row.runs[0].method == "erm" for row in comparison.rows) > 1
    against = plain.row.label if several else "plain training"
    if gain.low <= 0:
        return (
            f" That is not clearly more than {against}: on the same samples, the gain is "
            f"{_points(gain, comparison.correction)}."
        )
    several_seeds = bool(plain.row.runs[1:] and best.row.runs[1:])  # of both, see paired_difference
    start = "That is" if several_seeds else "For these trained models, that is"
    return f" {start} clearly more than {against}: {_points(gain, comparison.correction)}."


def _without_labels(
    comparison: Comparison,
    plain: Standing | None,
    others: Sequence[Standing],
    best: Standing,
    metric: str,
) -> Markup:
    """The best of those that had no bias labels, where the best of all had them."""
    unlabeled = [standing for standing in others if not standing.labeled]
    if not best.labeled or not unlabeled:
        return Markup("")
    second = max(unlabeled, key=lambda standing: standing.score.value)
    over = ""
    if plain is not None:
        gain = comparison.gains[second.row.label][metric]
        over = f", a gain of {_points(gain, comparison.correction)}"
    sentence = " Without bias labels, <strong>{}</strong> has the highest accuracy there, {}{}."
    return Markup(sentence).format(second.row.label, _mean(second.row, second.score), over)


def _worse_sentence(
    comparison: Comparison, plain: Standing | None, metric: str, where: str
) -> Markup:
    """The methods that clearly lose against plain training, by the paired gain."""
    lost = [
        label
        for label, gains in comparison.gains.items()
        if metric in gains and gains[metric].high < 0
    ]
    worse = [row for row in comparison.rows if row.label in lost]
    if plain is None or not worse:
        return Markup("")
    several_seeds = all(row.runs[1:] for row in (plain.row, *worse))
    start = "Clearly" if several_seeds else "For these trained models, clearly"
    names = ", ".join(row.label for row in worse)
    return Markup(" {} worse than plain training {}: {}.").format(start, where, names)


def _points(gain: Estimate, correction: str = "") -> str:
    value, low, high, _ = gain
    limits = f"95% interval {100 * low:+.1f} to {100 * high:+.1f}{correction}"
    return f"{100 * value:+.1f} points ({limits})"


def _interval(number: Number) -> str:
    return f"95% interval {percent(number.low)} to {percent(number.high)}"


def _mean(row: Row, number: Number) -> Markup:
    mean = f" (mean of {len(row.runs)} seeds)" if row.runs[1:] else ""
    return _strong(number) + mean


def _strong(number: Number) -> Markup:
    return Markup("<strong>{}</strong>").format(percent(number.value))


def supervision(code: str) -> str:
    """What a method knew about the bias, after "which"; an unknown code is shown as it is."""
    return SUPERVISION.get(code, f"used: {code}")


def selection(rule: str) -> str:
    """How the model was chosen; an unknown rule is shown as it is."""
    return SELECTION.get(rule, rule)

"""The story of a report in two sentences, computed from the numbers and honest about them."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from crossbias.formatting import percent
from crossbias.report.phrases import supervision
from crossbias.runs.comparability import recipe
from crossbias.runs.read import FinishedRun
from crossbias.verify import NO_SAMPLES, Estimate


class Standing(NamedTuple):
    """One method with one configuration, over its seeds."""

    title: str
    plain: bool  # whether this is plain training, the baseline
    knowledge: str  # what it knew about the bias, after "which"
    labeled: bool  # whether bias labels were used, in training or in choosing the model
    seeds: int
    aligned: Estimate
    score: Estimate  # on conflicting samples, or on all where none is known to conflict

    def percent(self, estimate: Estimate) -> str:
        """An estimate of this standing, and over how many seeds it is a mean."""
        mean = f" (mean of {self.seeds} seeds)" if self.seeds > 1 else ""
        return percent(estimate.value) + mean

    def interval(self) -> str:
        """The limits of the score, in words."""
        limits = f"{percent(self.score.low)} to {percent(self.score.high)}"
        if self.seeds == 1:
            return f"95% interval {limits}"
        return f"mean of {self.seeds} seeds, whose 95% intervals span {limits}"


def summary(runs: Sequence[FinishedRun]) -> list[Markup]:
    """Two sentences: what plain training does, and what does best where the bias misleads.

    Runs that differ in nothing but the seed count once, by their mean; the interval then spans
    those of the seeds.
    """
    standings = _standings(runs)
    plain = max((s for s in standings if s.plain), key=_score, default=None)
    others = [standing for standing in standings if not standing.plain]
    conflicting = runs[0].test.conflicting
    if conflicting is None or not conflicting.n:
        labeled = conflicting is not None
        first = _unlabeled_sentence(plain, "conflicting samples" if labeled else "bias labels")
        return [first, _best_sentence(others, plain, "over all test samples")]
    first = _shortcut_sentence(plain, runs[0].bias or "bias")
    return [first, _best_sentence(others, plain, "where they conflict")]


def _shortcut_sentence(plain: Standing | None, bias: str) -> Markup:
    if plain is None:
        return Markup(
            "Plain training (ERM) is not among these runs, so what the methods gain is not known."
        )
    if not plain.aligned.n:
        return Markup(
            "In every test sample, {} and class conflict; plain training is right on "
            "<strong>{}</strong> of them."
        ).format(bias, plain.percent(plain.score))
    shortcut = plain.aligned.low > plain.score.high
    return Markup(
        "Plain training {}: it is right on <strong>{}</strong> of the test samples whose {} goes "
        "along with their class, {} <strong>{}</strong> of those where the two conflict."
    ).format(
        "takes the shortcut" if shortcut else "shows no clear shortcut",
        plain.percent(plain.aligned),
        bias,
        "but on only" if shortcut else "and on",
        plain.percent(plain.score),
    )


def _unlabeled_sentence(plain: Standing | None, missing: str) -> Markup:
    first = Markup("The test split has no {}, so accuracy is given over all its samples").format(
        missing
    )
    if plain is None:
        return first + Markup(".")
    return first + Markup("; plain training is right on <strong>{}</strong> of them.").format(
        plain.percent(plain.score)
    )


def _best_sentence(others: Sequence[Standing], plain: Standing | None, where: str) -> Markup:
    if not others:
        return Markup("No other method is in this report to compare it with.")
    best = max(others, key=_score)
    beaten = plain is None or _score(best) > _score(plain)
    sentence = Markup(
        "Best {} is <strong>{}</strong>, which {}, with <strong>{}</strong> ({})"
        if beaten
        else "No method does better {} than plain training: the best, {}, which {}, is right on "
        "<strong>{}</strong> ({})"
    ).format(
        *(where, best.title, best.knowledge),
        *(percent(best.score.value), best.interval()),
    )
    if beaten and plain is not None and best.score.low <= plain.score.high:
        sentence += Markup(", not clearly more than plain training: the intervals overlap")
    return sentence + (_without_labels(others, best) if beaten else Markup("")) + Markup(".")


def _without_labels(others: Sequence[Standing], best: Standing) -> Markup:
    """The best of those that had no bias labels, where the best of all had them."""
    unlabeled = [standing for standing in others if not standing.labeled]
    if not best.labeled or not unlabeled:
        return Markup("")
    second = max(unlabeled, key=_score)
    return Markup("; without bias labels, <strong>{}</strong> does best with {}").format(
        second.title, second.percent(second.score)
    )


def _score(standing: Standing) -> float:
    return standing.score.value


def _standings(runs: Sequence[FinishedRun]) -> list[Standing]:
    """One standing for all runs that differ in nothing but the seed."""
    recipes: dict[str, list[FinishedRun]] = {}
    for run in runs:
        recipes.setdefault(recipe(run), []).append(run)
    return [_standing(same) for same in recipes.values()]


def _standing(runs: Sequence[FinishedRun]) -> Standing:
    tests = [run.test for run in runs]
    known = [test.conflicting for test in tests if test.conflicting and test.conflicting.n]
    trained = runs[0].config["supervision"] == "bias labels"
    chosen = runs[0].config["selection"] == "validation-worst-group"
    knowledge = supervision(str(runs[0].config["supervision"]))
    return Standing(
        title=runs[0].title,
        plain=runs[0].method == "erm",
        knowledge=knowledge + (" but was chosen by bias labels" if chosen and not trained else ""),
        labeled=trained or chosen,
        seeds=len(runs),
        aligned=_over_seeds([test.aligned for test in tests if test.aligned]),
        score=_over_seeds(known or [test.overall for test in tests]),
    )


def _over_seeds(estimates: Sequence[Estimate]) -> Estimate:
    if not estimates or not estimates[0].n:
        return NO_SAMPLES
    low = min(estimate.low for estimate in estimates)
    high = max(estimate.high for estimate in estimates)
    value = sum(estimate.value for estimate in estimates) / len(estimates)
    return Estimate(value, low, high, estimates[0].n)

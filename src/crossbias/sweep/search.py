"""SearchJobs: settings drawn by Optuna, one trial after the other, each a run of the sweep."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed
from crossbias.runs.files import write_json
from crossbias.runs.read import FinishedRun, read_run
from crossbias.runs.sweeps import SweepFolder
from crossbias.seeds import seed_for
from crossbias.sweep.job import Job, Outcome
from crossbias.sweep.plan import Plan, Tables, merged
from crossbias.sweep.space import Range, Rule

if TYPE_CHECKING:
    import optuna

_TINY = 1e-30  # instead of a probability of 0


@dataclass
class Arm:
    """One configuration whose settings are searched: a method, data and a network.

    Args:
        name: Of the files of the search.
        tables: The tables of the configuration without what is drawn.
        rule: The number that is compared.
        study: Optuna's record.
        running: Trials by the name of their run.
    """

    name: str
    tables: Tables
    rule: Rule
    study: "optuna.Study"
    running: dict[str, int] = field(default_factory=dict)


class SearchJobs:
    """Trials of all arms, with the same budget for each.

    The first trial of an arm has the settings of the plan as they are, so that no search can choose
    worse than these. Later ones are drawn here, in the process that started the sweep. A trial that
    was running when this process was killed is handed out again, and its run resumes.

    Args:
        plan: A plan with a search.
        folder: The sweep's folder, where Optuna's journals lie.
    """

    def __init__(self, plan: Plan, folder: SweepFolder) -> None:
        if plan.space is None:
            raise CrossbiasError("the plan has no [search]")
        check_installed("optuna", what="a search")
        self.plan, self.folder, self.space = plan, folder, plan.space
        folder.searches.mkdir(parents=True, exist_ok=True)
        self.arms = [self._arm(name, tables) for name, tables in plan.arms()]
        self._jobs = self._drawn()

    def next(self) -> Job | None:
        """The next trial as a run."""
        return next(self._jobs, None)

    @property
    def left(self) -> int:
        """Trials that were not handed out."""
        return sum(max(self.space.trials - len(arm.study.get_trials()), 0) for arm in self.arms)

    def tell(self, outcome: Outcome) -> None:
        """Give Optuna the number of a finished trial, and write all trials so far."""
        for arm in self.arms:
            if outcome.name in arm.running and outcome.state != "stopped":
                number = arm.running.pop(outcome.name)
                value = None
                if outcome.state == "finished":
                    value = value_of(read_run(self.folder.runs / outcome.name), self.space.rule)
                self._tell(arm, number, value)
                write_json(self.folder.searches / f"{arm.name}.json", self._record(arm))

    def chosen(self) -> list[Job]:
        """The best settings of each arm with every seed of the plan.

        The run of the first seed is the trial itself. An arm without a finished trial has none.
        """
        return [
            self._job_of(arm, best.number, best.params, seed)
            for seed in self.plan.seeds
            for arm in self.arms
            if (best := _best_trial(arm)) is not None
        ]

    def _arm(self, name: str, tables: Tables) -> Arm:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        logging.getLogger("optuna").setLevel(logging.WARNING)
        journal = self.folder.searches / f"{name}.journal"
        study = optuna.create_study(
            study_name=name, load_if_exists=True, direction=direction_of(self.space.rule),
            storage=JournalStorage(JournalFileBackend(str(journal))),
        )  # fmt: skip
        return Arm(name, tables, self.space.rule, study)

    def _drawn(self) -> Iterator[Job]:
        """Trials that were running before, then new ones, arm by arm in turn."""
        from optuna.trial import TrialState

        for arm in self.arms:
            for trial in arm.study.get_trials(states=(TrialState.RUNNING,)):
                yield self._job(arm, trial.number, trial.params)
        for number in range(self.space.trials):
            for arm in self.arms:
                if len(arm.study.get_trials()) <= number:
                    yield self._asked(arm)

    def _asked(self, arm: Arm) -> Job:
        """A new trial."""
        import optuna

        space = self.space.of(str(arm.tables["method"].get("name", "erm")))
        number = len(arm.study.get_trials())
        seed = seed_for(self.plan.seeds[0], "search", arm.name, number) % 2**32
        samplers = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
        arm.study.sampler = samplers[self.space.sampler](seed=seed)
        drawn = dict(_distributions(space)) if number else {}  # the first has the plan's settings
        trial = arm.study.ask(drawn)
        return self._job(arm, trial.number, trial.params)

    def _job(self, arm: Arm, number: int, settings: Mapping[str, Any]) -> Job:
        job = self._job_of(arm, number, settings, self.plan.seeds[0])
        arm.running[job.name] = number
        return job

    def _job_of(self, arm: Arm, number: int, settings: Mapping[str, Any], seed: int) -> Job:
        tables, _ = merged(arm.tables, settings)
        return self.plan.job(tables, seed, {"trial": number})

    def _tell(self, arm: Arm, number: int, value: float | None) -> None:
        from optuna.trial import TrialState

        if value is None:
            arm.study.tell(number, state=TrialState.FAIL)
        else:
            arm.study.tell(number, value)

    def _record(self, arm: Arm) -> dict[str, Any]:
        """All trials of an arm, for whoever reads the sweep."""
        best = _best_trial(arm)
        return {
            "method": arm.tables["method"].get("name", "erm"),
            "data": self._job_of(arm, 0, {}, self.plan.seeds[0]).data,
            "rule": self.space.rule,
            "direction": direction_of(self.space.rule),
            "sampler": self.space.sampler,
            "budget": self.space.trials,
            "chosen": None if best is None else best.number,
            "trials": [
                {
                    "number": trial.number,
                    "run": self._job_of(arm, trial.number, trial.params, self.plan.seeds[0]).name,
                    "state": trial.state.name.lower(),
                    "value": trial.value,
                    "settings": trial.params,
                }
                for trial in arm.study.get_trials()
            ],
        }


def direction_of(rule: Rule) -> Literal["minimize", "maximize"]:
    """Whether the number of a rule is better high or low."""
    return "minimize" if rule == "validation-loss" else "maximize"


def value_of(run: FinishedRun, rule: Rule) -> float:
    """The number of a finished run on its validation data, as the rule names it.

    Raises:
        CrossbiasError: The run has no validation data, or no bias labels there.
    """
    metrics, answers = run.metrics.get("validation"), run.predictions.get("validation")
    if metrics is None or answers is None:
        raise CrossbiasError(
            f"{run.path} has no validation split, so a search cannot choose by {rule}; use data "
            f"with a validation split"
        )
    if rule == "validation-accuracy":
        return metrics.overall.value
    if rule == "validation-worst-group":
        if metrics.worst_group is None:
            raise CrossbiasError(
                f"{run.path} has no bias labels in its validation split, so a search cannot choose "
                f"by {rule}; use validation-accuracy or validation-loss"
            )
        return metrics.worst_group.accuracy.value
    probabilities = answers.probabilities.gather(1, answers.target[:, None])
    return -float(probabilities.double().clamp_min(_TINY).log().mean())


def _best_trial(arm: Arm) -> "optuna.trial.FrozenTrial | None":
    """The best finished trial, the earliest of equal ones."""
    from optuna.trial import TrialState

    finished = arm.study.get_trials(states=(TrialState.COMPLETE,))
    sign = 1 if direction_of(arm.rule) == "minimize" else -1
    return min(finished, key=lambda trial: (sign * (trial.value or 0), trial.number), default=None)


def _distributions(space: Mapping[str, Range | tuple[Any, ...]]) -> Iterator[tuple[str, Any]]:
    """Optuna's words for what may be drawn."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    for name, choice in space.items():
        if isinstance(choice, tuple):
            yield name, CategoricalDistribution(choice)
        elif isinstance(choice.low, int) and isinstance(choice.high, int):
            step = 1 if choice.step is None else int(choice.step)
            yield name, IntDistribution(choice.low, choice.high, log=choice.log, step=step)
        else:
            yield name, FloatDistribution(choice.low, choice.high, log=choice.log, step=choice.step)

from collections.abc import Callable
from pathlib import Path

import pytest

from crossbias.report.summary import summary
from crossbias.runs.comparability import read_runs
from crossbias.verify import wilson

WriteRun = Callable[..., Path]
END = {"method": "end", "paper": "EnD", "supervision": "bias labels"}
LFF = {"method": "lff", "paper": "LfF"}


def told(*folders: Path) -> tuple[str, str]:
    """The two sentences as plain text."""
    first, second = summary(read_runs(folders))
    return first.striptags(), second.striptags()


def limits(correct: int, total: int) -> str:
    _, low, high, _ = wilson(correct, total)
    return f"{100 * low:.1f}% to {100 * high:.1f}%"


def test_plain_training_takes_the_shortcut_and_a_method_repairs_it(write_run: WriteRun) -> None:
    """Three aligned and six conflicting groups of 30 samples."""
    first, second = told(
        write_run("erm", aligned=0.9, conflicting=0.2),
        write_run("lff", **LFF, conflicting=0.5),
        write_run("end", **END, conflicting=0.8),
    )
    assert first == (
        "Plain training takes the shortcut: it is right on 90.0% of the test samples whose "
        "background goes along with their class, but on only 20.0% of those where the two "
        "conflict."
    )
    assert second == (
        "Best where they conflict is EnD, which used bias labels, with 80.0% "
        f"(95% interval {limits(144, 180)}); without bias labels, LfF does best with 50.0%."
    )


def test_no_shortcut_is_not_made_one(write_run: WriteRun) -> None:
    first, _ = told(write_run("erm", aligned=0.9, conflicting=0.9))
    assert first.startswith("Plain training shows no clear shortcut: it is right on 90.0% of")
    assert "and on 90.0% of those" in first


@pytest.mark.parametrize("conflicting", [0.5, 0.3], ids=["equal", "worse"])
def test_methods_that_do_not_beat_plain_training_are_not_called_best(
    write_run: WriteRun, conflicting: float
) -> None:
    _, second = told(
        write_run("erm", conflicting=0.5), write_run("end", **END, conflicting=conflicting)
    )
    assert second.startswith(
        "No method does better where they conflict than plain training: the best, EnD, which used "
        f"bias labels, is right on {100 * conflicting:.1f}%"
    )
    assert "Best" not in second


def test_where_nothing_beats_plain_training_no_second_is_called_best(write_run: WriteRun) -> None:
    folders = [write_run("erm"), write_run("end", **END), write_run("a", **LFF)]
    assert "best with" not in told(*folders)[1]


def test_a_gain_within_the_intervals_is_called_unclear(write_run: WriteRun) -> None:
    folders = [write_run("erm", conflicting=0.5), write_run("a", **LFF, conflicting=0.53)]
    assert "not clearly more than plain training: the intervals overlap" in told(*folders)[1]
    folders[1] = write_run("b", **LFF, conflicting=0.8)
    assert "overlap" not in told(*folders)[1]


def test_seeds_count_once_by_their_mean(write_run: WriteRun) -> None:
    """The luckiest seed must not win: one lff seed beats every end seed, but not on average."""
    _, second = told(
        write_run("erm", conflicting=0.2),
        *(write_run(f"end{seed}", **END, conflicting=0.7, seed=seed) for seed in range(2)),
        *(write_run(f"lff{rate}", **LFF, conflicting=rate / 10, seed=rate) for rate in (9, 1)),
    )
    low, high = limits(126, 180).split(" to ")
    assert second.startswith(
        "Best where they conflict is EnD, which used bias labels, with 70.0% "
        f"(mean of 2 seeds, whose 95% intervals span {low} to {high})"
    )
    assert second.endswith("LfF does best with 50.0% (mean of 2 seeds).")


def test_a_model_chosen_by_bias_labels_does_not_pass_for_one_without(write_run: WriteRun) -> None:
    _, second = told(
        write_run("a", **LFF, conflicting=0.8, selection="validation-worst-group"),
        write_run("b", method="pgd", conflicting=0.4),
    )
    assert "LfF, which knew nothing about the bias but was chosen by bias labels, with" in second
    assert second.endswith("; without bias labels, pgd does best with 40.0%.")


def test_other_settings_are_not_seeds_of_the_same_method(write_run: WriteRun) -> None:
    _, second = told(
        write_run("a", **LFF, conflicting=0.4, parameters=(("q", 0.7),)),
        write_run("b", **LFF, conflicting=0.6, parameters=(("q", 0.5),)),
    )
    assert "with 60.0% (95% interval" in second


def test_without_plain_training_the_gain_is_not_known(write_run: WriteRun) -> None:
    first, second = told(write_run("lff", **LFF, conflicting=0.5))
    assert first.startswith("Plain training (ERM) is not among these runs")
    assert second.startswith("Best where they conflict is LfF, which knew nothing about the bias")


def test_plain_training_alone_has_nothing_to_be_compared_with(write_run: WriteRun) -> None:
    assert told(write_run("erm"))[1] == "No other method is in this report to compare it with."


@pytest.mark.parametrize("change", [{"bias": None}, {"labeled": False}])
def test_without_bias_labels_only_overall_accuracy_is_told(
    write_run: WriteRun, change: dict[str, object]
) -> None:
    first, second = told(
        write_run("erm", **change, aligned=0.9, conflicting=0.3),
        write_run("lff", **LFF, **change, aligned=0.9, conflicting=0.6),
    )
    assert first == (
        "The test split has no bias labels, so accuracy is given over all its samples; "
        "plain training is right on 50.0% of them."
    )
    assert second == (
        "Best over all test samples is LfF, which knew nothing about the bias, with 70.0% "
        f"(95% interval {limits(189, 270)})."
    )


def test_a_split_of_aligned_samples_only_is_called_that(write_run: WriteRun) -> None:
    one = {"classes": ("circle",), "biases": ("red",), "aligned": 1.0}
    first, _ = told(write_run("erm", **one))
    assert first == (
        "The test split has no conflicting samples, so accuracy is given over all its samples; "
        "plain training is right on 100.0% of them."
    )


def test_a_split_of_conflicting_samples_only_is_called_that(write_run: WriteRun) -> None:
    first, _ = told(write_run("erm", aligned=1.0, conflicting=0.3, only_conflicting=True))
    assert first == (
        "In every test sample, background and class conflict; plain training is right on 30.0% "
        "of them."
    )

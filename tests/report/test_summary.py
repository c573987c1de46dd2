from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import t

from crossbias.report.summary import gap_of, summary
from crossbias.report.tables import accuracy_table
from crossbias.runs import compare
from crossbias.runs.files import read_json, write_json
from crossbias.runs.stored import TrainingLabels, save_labels, save_predictions
from crossbias.verify import Metrics, Predictions, lowest_of, wilson

WriteRun = Callable[..., Path]
END = {"method": "end", "paper": "EnD", "supervision": "bias labels"}
LFF = {"method": "lff", "paper": "LfF"}


def told(*folders: Path) -> tuple[str, str]:
    """The last two paragraphs as plain text: plain training, and the best method."""
    _, first, second = summary(compare(folders))
    return first.striptags(), second.striptags()


def limits(correct: int, total: int) -> str:
    _, low, high, _ = wilson(correct, total)
    return f"{100 * low:.1f}% to {100 * high:.1f}%"


def lowest(*groups: tuple[int, int]) -> str:
    """The interval of the worst group among so many with so many right answers of 30 each."""
    right = [correct for correct, number in groups for _ in range(number)]
    found = lowest_of(right, [30] * len(right))
    return f"(95% interval {100 * found.low:.1f}% to {100 * found.high:.1f}%)"


def test_plain_training_takes_the_shortcut_and_a_method_repairs_it(write_run: WriteRun) -> None:
    """Three aligned and six conflicting groups of 30 samples."""
    folders = [
        write_run("erm", aligned=0.9, conflicting=0.2),
        write_run("lff", **LFF, conflicting=0.5),
        write_run("end", **END, conflicting=0.8),
    ]
    first, second = told(*folders)
    gap = gap_of(compare(folders).baseline)
    assert gap.low > 0.5
    assert first == (
        "In this one run, plain training is clearly worse where the shortcut misleads: it is right "
        "on 90.0% of the test samples whose background matches their class, but on only 20.0% of "
        "those where the two conflict. Within a class, the difference is +70.0 points (95% "
        f"interval {100 * gap.low:+.1f} to {100 * gap.high:+.1f}). In the worst of 9 groups "
        f"(circle, green), it is right on 20.0% {lowest((27, 3), (6, 6))}."
    )
    gain, second_gain = (compare(folders).gains[name]["conflicting"] for name in ("EnD", "LfF"))
    assert 50 < 100 * gain.low < 60 < 100 * gain.high < 70
    assert second == (
        "EnD, which used bias labels, has the highest accuracy on conflicting samples, 80.0% "
        f"(95% interval {limits(144, 180)}). For these trained models, that is clearly more than "
        f"plain training: +60.0 points (95% interval {100 * gain.low:+.1f} to "
        f"{100 * gain.high:+.1f}, corrected for 2 comparisons). In the worst of 9 groups (circle, "
        f"green), it is right on 80.0% {lowest((29, 3), (24, 6))}. "
        f"Without bias labels, LfF has the highest accuracy there, 50.0%, a gain of +30.0 points "
        f"(95% interval "
        f"{100 * second_gain.low:+.1f} to {100 * second_gain.high:+.1f}, corrected for 2 "
        "comparisons)."
    )


def test_no_shortcut_is_not_made_one(write_run: WriteRun) -> None:
    first, _ = told(write_run("erm", aligned=0.9, conflicting=0.9))
    assert first.startswith(
        "In this one run, plain training is not clearly worse where the shortcut misleads: it is "
        "right on 90.0% of"
    )
    assert "and on 90.0% of those" in first
    assert "may be chance" not in first
    lucky = write_run("lucky", aligned=0.9, conflicting=0.87)
    gap = gap_of(compare(lucky).baseline)
    assert gap.low < 0 < gap.high
    assert gap.value == pytest.approx(1 / 30)
    assert (
        "of those where the two conflict. Within a class, the difference is +3.3 points (95% "
        f"interval {100 * gap.low:+.1f} to {100 * gap.high:+.1f}), which may be chance. "
        in told(lucky)[0]
    )


def answer(folder: Path, target: np.ndarray, bias: np.ndarray, right: np.ndarray) -> Metrics:
    """Put other test samples into a run; wrong answers are the next class."""
    classes = target.max() + 1
    answers = torch.from_numpy(np.where(right, target, (target + 1) % classes))
    found = Predictions(
        index=torch.arange(len(target)),
        target=torch.from_numpy(target),
        probabilities=torch.nn.functional.one_hot(answers, classes).float(),
        attributes={"background": torch.from_numpy(bias)},
    )
    save_predictions(folder / "predictions.npz", {"test": found})
    names = {"classes": tuple("abc"[:classes]), "values": tuple("xyz"[:classes])}
    metrics = Metrics.from_answers(
        found.target, torch.from_numpy(bias), answers, alignment=torch.eye(classes) > 0, **names
    )
    write_json(folder / "metrics.json", {"test": metrics.to_json()})
    return metrics


def test_the_gap_counts_each_class_by_its_conflicting_samples(write_run: WriteRun) -> None:
    """50 points in a class with 30 of them, 10 points in one with 10; one has none aligned."""
    folder = write_run("erm", classes=tuple("abc"), biases=tuple("xyz"))
    groups = [  # class, bias value, samples, right ones
        *((0, 0, 10, 10), (0, 1, 30, 15)),
        *((1, 1, 30, 27), (1, 2, 10, 8)),
        (2, 0, 10, 0),
    ]
    target, bias = (np.repeat([g[k] for g in groups], [g[2] for g in groups]) for k in (0, 1))
    right = np.concatenate([np.arange(n) < correct for _, _, n, correct in groups])
    answer(folder, target, bias, right)
    gap = gap_of(compare(folder).baseline)
    assert gap.value == pytest.approx((30 * 0.5 + 10 * 0.1) / 40)


def test_a_hard_class_is_not_a_shortcut(write_run: WriteRun) -> None:
    """Errors depend on the class alone, but most samples of the hard class conflict."""
    folder = write_run("erm", aligned=1.0, conflicting=1.0, classes=("a", "b"), biases=("x", "y"))
    draw = np.random.default_rng(0)
    target = np.repeat([0, 1], 1000)
    share = np.where(target == 0, 0.9, 0.2)  # of the aligned in each class
    bias = np.where(draw.random(2000) < share, target, 1 - target)
    right = draw.random(2000) < np.where(target == 0, 0.95, 0.6)
    metrics = answer(folder, target, bias, right)
    assert metrics.aligned.low > metrics.conflicting.high + 0.1
    first = told(folder)[0]
    assert "plain training is not clearly worse where the shortcut misleads" in first
    assert "Within a class, the difference is" in first


def test_the_gap_of_several_seeds_is_judged_on_the_samples_not_by_overlapping_intervals(
    write_run: WriteRun,
) -> None:
    """Three seeds at 100%, 80% and 60% of the aligned, 20 points less of the conflicting.

    Student's t intervals over the seeds overlap, but every seed has the same clear gap.
    """
    rates = (1.0, 0.8, 0.6)
    folders = [
        write_run(f"erm{s}", aligned=r, conflicting=r - 0.2, seed=s) for s, r in enumerate(rates)
    ]
    row = compare(folders).baseline
    assert row.numbers["aligned"].low < row.numbers["conflicting"].high
    assert gap_of(row).value == pytest.approx(0.2)
    assert gap_of(row).low > 0.1
    assert told(*folders)[0].startswith(
        "Plain training is clearly worse where the shortcut misleads: it is right on 80.0% (mean "
        "of 3 seeds) of the test samples whose background matches their class, but on only 60.0% "
        "of those"
    )


def test_the_first_sentence_names_target_and_bias(write_run: WriteRun) -> None:
    """As many training samples of each group say that there is no bias; the page says so too."""
    first = summary(compare(write_run("erm", target="shape")))[0].striptags()
    assert first == (
        "The models predict shape (circle, square, star) in glyphs; the possible shortcut is "
        "background (red, green, blue)."
    )
    first = summary(compare(write_run("none", bias=None)))[0].striptags()
    assert first == (
        "The models predict the class (circle, square, star) in glyphs; no attribute is named as "
        "a possible shortcut."
    )
    first = summary(compare(write_run("kept", views=True)))[0].striptags()
    assert first.endswith(
        " In the training data, background matches the class in 90 of 270 samples (33.3%). This "
        "association may be due to chance (p=1.000, chi-square test): the data may have no such "
        "bias."
    )


def test_the_strength_of_the_bias_in_training_is_told(write_run: WriteRun) -> None:
    """The situation of 1,890 faces of which 90 conflict."""
    folder = write_run("erm", classes=("f", "m"), biases=("young", "old"), bias="age")
    target = torch.arange(1890) % 2
    ages = torch.where(torch.arange(1890) < 90, target, 1 - target)
    labels = TrainingLabels(index=torch.arange(1890), target=target, attributes={"age": ages})
    save_labels(folder / "labels.npz", labels)
    config = read_json(folder / "config.json")  # training numbers the values in another order
    config["data"]["values"] = {"age": ["old", "young"]}
    write_json(folder / "config.json", config)
    first = summary(compare(folder))[0].striptags()
    assert first.endswith(
        " In the training data, age matches the class in 1,800 of 1,890 samples (95.2%)."
    )


def test_images_of_one_patient_do_not_make_an_association(write_run: WriteRun) -> None:
    """Eight patients with forty images each: five of eight match, as a coin may have it."""
    folder = write_run("erm", classes=("f", "m"), biases=("young", "old"), bias="age")
    patient = torch.arange(320) // 40
    target = patient % 2
    ages = torch.where(patient < 3, 1 - target, target)
    for cluster, test in ((None, "chi-square test"), (patient, "chi-square test over clusters")):
        save_labels(folder / "labels.npz", TrainingLabels(
            index=torch.arange(320), target=target, attributes={"age": ages}, cluster=cluster,
        ))  # fmt: skip
        first = summary(compare(folder))[0].striptags()
        assert "age matches the class in 200 of 320 samples (62.5%)." in first
        assert (test in first) == (cluster is not None)


def test_data_without_association_is_not_said_to_conflict(write_run: WriteRun) -> None:
    """Training that associates nothing has neither aligned nor conflicting samples."""
    like = {"associated": False, "aligned": 0.9, "conflicting": 0.6}
    folders = [write_run("erm", **like), write_run("lff", **LFF, **(like | {"conflicting": 0.9}))]
    first, second = told(*folders)
    assert first == (
        "The training data associates no background with a class, so accuracy is given over all "
        "test samples; plain training is right on 70.0% of them. In the worst of 9 groups (circle, "
        f"green), it is right on 60.0% {lowest((27, 3), (18, 6))}."
    )
    assert second.startswith(
        "LfF, which knew nothing about the bias, has the highest accuracy over all test samples, "
    )
    assert [column.title for column in accuracy_table(compare(folders).rows)] == [
        *("Overall", "Worst of 9 groups", "Unbiased"),
    ]


def test_methods_that_clearly_lose_are_named(write_run: WriteRun) -> None:
    _, second = told(
        write_run("erm", conflicting=0.6),
        write_run("end", **END, conflicting=0.8),
        write_run("lff", **LFF, conflicting=0.2),
    )
    assert second.endswith(
        " For these trained models, clearly worse than plain training on conflicting samples: LfF."
    )
    several = [
        write_run(f"{name}{seed}", **method, conflicting=rate, seed=seed)
        for name, method, rate in (("p", {}, 0.6), ("q", END, 0.8), ("r", LFF, 0.2))
        for seed in range(3)
    ]
    end = " Clearly worse than plain training on conflicting samples: LfF."
    assert told(*several)[1].endswith(end)


@pytest.mark.parametrize("conflicting", [0.5, 0.3], ids=["equal", "worse"])
def test_methods_that_do_not_beat_plain_training_are_not_called_best(
    write_run: WriteRun, conflicting: float
) -> None:
    _, second = told(
        write_run("erm", conflicting=0.5), write_run("end", **END, conflicting=conflicting)
    )
    assert second.startswith(
        "No method is more accurate on conflicting samples than plain training: the best, EnD, "
        f"which used bias labels, is right on {100 * conflicting:.1f}%"
    )
    assert "highest" not in second


def test_where_nothing_beats_plain_training_no_second_is_called_best(write_run: WriteRun) -> None:
    folders = [write_run("erm"), write_run("end", **END), write_run("a", **LFF)]
    assert "highest" not in told(*folders)[1]


def test_the_paired_gain_decides_whether_a_method_is_clearly_better(write_run: WriteRun) -> None:
    """One more of 30 is right in each of six groups, and nothing that was right is lost.

    The intervals of the two accuracies overlap, but the gain on the same samples is clear. With
    other seeds, as many samples change in both directions, and it is not.
    """
    plain = write_run("erm", conflicting=0.5)
    better = write_run("a", **LFF, conflicting=16 / 30)
    found = compare([plain, better])
    (first, second) = (row.numbers["conflicting"] for row in found.rows)
    assert first.high > second.low
    text = told(plain, better)[1]
    assert "For these trained models, that is clearly more than plain training: +3.3" in text
    text = told(plain, write_run("b", **LFF, conflicting=16 / 30, seed=1))[1]
    assert (
        "That is not clearly more than plain training: on the same samples, the gain is +3.3 p"
        in text
    )
    assert "these trained models" not in text


def test_only_several_seeds_speak_for_more_than_the_trained_models(write_run: WriteRun) -> None:
    """One seed says nothing about others; two that differ by 40 points show no clear gain."""
    plain = [write_run(f"erm{seed}", conflicting=0.3, seed=seed) for seed in range(2)]
    lff = [write_run(f"lff{seed}", **LFF, conflicting=0.8, seed=seed) for seed in range(2)]
    assert ". That is clearly more than plain training: +50.0" in told(*plain, *lff)[1]
    uneven = write_run("lff2", **LFF, conflicting=0.4, seed=2)
    unclear = told(*plain, lff[0], uneven)[1]
    assert "not clearly more than plain training" in unclear
    for folders in ([plain[0], *lff], [*plain, lff[0]]):
        assert ". For these trained models, that is clearly more than" in told(*folders)[1]


def test_seeds_count_once_by_their_mean_with_students_interval(write_run: WriteRun) -> None:
    """The luckiest seed must not win: one lff seed beats every end seed, but not on average."""
    rates = (0.7, 0.8)
    first, second = told(
        *(write_run(f"erm{s}", aligned=1.0, conflicting=0.2, seed=s) for s in range(2)),
        *(write_run(f"end{r}", **END, conflicting=r, seed=s) for s, r in enumerate(rates)),
        *(write_run(f"lff{rate}", **LFF, conflicting=rate / 10, seed=rate) for rate in (9, 1)),
    )
    half = t.ppf(0.975, 1) * np.std(rates, ddof=1) / np.sqrt(2)
    assert half > 0.25  # the interval is cut at 1
    assert second.startswith(
        "EnD, which used bias labels, has the highest accuracy on conflicting samples, 75.0% "
        f"(mean of 2 seeds, 95% interval {100 * (0.75 - half):.1f}% to 100.0%)."
    )
    without = " Without bias labels, LfF has the highest accuracy there, 50.0% (mean of 2 seeds), "
    assert f"{without}a gain of +30" in second
    assert "right on 100.0% (mean of 2 seeds) of the test samples whose background" in first


def test_of_several_plain_trainings_the_baseline_is_named(write_run: WriteRun) -> None:
    _, second = told(
        write_run("erm", conflicting=0.3, epochs=4),
        write_run("long", conflicting=0.4, epochs=8),
        write_run("lff", **LFF, conflicting=0.8),
    )
    assert "clearly more than Plain training (ERM) (train epochs 4): +50.0" in second


def test_a_model_chosen_by_bias_labels_does_not_pass_for_one_without(write_run: WriteRun) -> None:
    _, second = told(
        write_run("a", **LFF, conflicting=0.8, selection="validation-worst-group"),
        write_run("b", method="pgd", conflicting=0.4),
    )
    assert "LfF, which knew nothing about the bias but was chosen by bias labels, has" in second
    assert second.endswith(" Without bias labels, pgd has the highest accuracy there, 40.0%.")


def test_other_settings_are_not_seeds_of_the_same_method(write_run: WriteRun) -> None:
    _, second = told(
        write_run("a", **LFF, conflicting=0.4, parameters=(("q", 0.7),)),
        write_run("b", **LFF, conflicting=0.6, parameters=(("q", 0.5),)),
    )
    assert ", 60.0% (95% interval" in second


def test_without_plain_training_the_gain_is_not_known(write_run: WriteRun) -> None:
    first, second = told(write_run("lff", **LFF, conflicting=0.5))
    assert first.startswith("Plain training (ERM) is not among these runs")
    assert second.startswith(
        "LfF, which knew nothing about the bias, has the highest accuracy on c"
    )
    assert "clearly" not in second


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
        "The test split has no bias labels, so accuracy is given over all test samples; "
        "plain training is right on 50.0% of them."
    )
    assert second.startswith(
        "LfF, which knew nothing about the bias, has the highest accuracy over all test samples, "
        f"70.0% (95% interval {limits(189, 270)}). For these trained models, that is clearly more "
        "than plain training: +20.0 points"
    )


def test_a_split_of_aligned_samples_only_is_called_that(write_run: WriteRun) -> None:
    one = {"classes": ("circle",), "biases": ("red",), "aligned": 1.0}
    first, _ = told(write_run("erm", **one))
    assert first == (
        "The test split has no conflicting samples, so accuracy is given over all test samples; "
        "plain training is right on 100.0% of them. In the only group (circle, red), it is right "
        f"on 100.0% {lowest((30, 1))}."
    )


def test_a_split_of_conflicting_samples_only_is_called_that(write_run: WriteRun) -> None:
    first, _ = told(write_run("erm", aligned=1.0, conflicting=0.3, only_conflicting=True))
    assert first == (
        "In every test sample, background and class conflict; plain training is right on 30.0% "
        "of them. In the worst of 6 groups (circle, green), it is right on 30.0% "
        f"{lowest((9, 6))}."
    )

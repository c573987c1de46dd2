"""The words of a verdict say what the numbers show and no more."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from crossbias import BiasedDataset
from crossbias.audit.attributes import AttributeFinding, audit_attributes
from crossbias.audit.counterfactual import Flips
from crossbias.audit.model import ConfidentErrors, FeatureFinding, ModelFinding
from crossbias.audit.probed_cues import CueByAttribute, CueFinding
from crossbias.audit.slices import Slices
from crossbias.audit.verdict import untested_columns, untested_findings, verdict_of
from crossbias.verify import Estimate, wilson


def attribute(**changes: Any) -> AttributeFinding:
    """The hospital is right on 93 of 100 samples, the most frequent class on 60."""
    numbers = {
        "cramers_v": Estimate(0.87, 0.8, 0.92, 100), "accuracy": wilson(93, 100),
        "majority": 0.6, "balanced_accuracy": 0.93, "chance": 0.5, "p": 0.001, "p_corrected": 0.01,
    }  # fmt: skip
    names = {"name": "hospital", "values": ("a", "b"), "classes": ("well", "sick")}
    return AttributeFinding(counts=((57, 3), (4, 36)), **(names | numbers | changes))


def cue(solved: float, **changes: Any) -> CueFinding:
    numbers = {"balanced_accuracy": 0.5 + solved / 2, "chance": 0.5, "p": 0.001}
    numbers |= {"p_corrected": 0.01, "detectable": 0.58}
    return CueFinding(name="color", what="which colors", dimensions=3, **(numbers | changes))


def model(**changes: Any) -> ModelFinding:
    found = {"features": (), "flips": (), "confident_errors": (), "overall_errors": wilson(5, 100)}
    found |= {"slices": Slices(tested=0, found=(), reason="there are few samples"), "answers": ()}
    return ModelFinding(name="run", split="test", hash="", **(found | changes))


def test_an_attribute_that_predicts_the_class_is_told_with_both_accuracies():
    found = verdict_of([attribute()], [], None, ["other kinds"])
    sentence = (
        "he attribute 'hospital' alone predicts the class of 93% of the samples (always answering "
        "the most frequent class is right on 60%); its association with the class is strong "
        "(Cramer's V 0.87, 95% interval 0.80 to 0.92)."
    )
    assert found.sentence.startswith(f"An attribute gives the class away: t{sentence} If 'hospi")
    assert found.sentence.endswith("and compare the accuracy where it matches the class with the "
                                   "accuracy where it conflicts.")  # fmt: skip
    assert found.findings == (("attribute", "hospital", "strong", f"T{sentence}"),)
    assert found.not_tested == ("other kinds",)


def test_an_association_that_predicts_nothing_is_not_called_a_solution():
    """99:1, and the class is answered anyway: the association is all there is to tell."""
    found = verdict_of([attribute(accuracy=wilson(62, 100))], [], None, [])
    assert found.sentence.startswith(
        "An attribute is associated with the class: the association of the attribute 'hospital' "
        "with the class is strong (Cramer's V 0.87, 95% interval 0.80 to 0.92), but alone it "
        "predicts the class of 62% of the samples, not clearly more than always answering the most "
        "frequent class does (60%)."
    )
    unknown = verdict_of([attribute(accuracy=None, majority=None)], [], None, [])
    assert "is strong (Cramer's V 0.87, 95% interval 0.80 to 0.92). If" in unknown.sentence
    assert "gives the class away" not in found.sentence + unknown.sentence


def test_a_rare_class_told_by_a_rare_value_is_not_called_a_solution():
    targets = (torch.arange(1000) >= 990).long()
    values = torch.zeros(1000, dtype=torch.int64)
    values[torch.arange(0, 990, 10)] = 1
    values[990:] = 1
    data = BiasedDataset(inputs=torch.zeros(1000, 1), targets=targets, attributes={"a": values})
    (found,) = audit_attributes(data, permutations=99, seed=0)
    assert found.accuracy is not None
    assert found.accuracy.value == found.majority == 0.99
    assert found.solved is None


@pytest.mark.parametrize(
    ("solved", "share", "strength"),
    [(1.0, "most", "strong"), (0.5, "most", "strong"), (0.3, "part", "moderate"),
     (0.1, "a small part", "weak")],
)  # fmt: skip
def test_a_cue_is_as_strong_as_what_it_solves(solved: float, share: str, strength: str):
    found = verdict_of([], [cue(solved)], None, [])
    right = f"{50 + 50 * solved:.0f}%"
    assert found.sentence.startswith(
        f"A very simple model could solve {share} of this task: the cue 'color' alone (which "
        f"colors) predicts the class of {right} of the samples (guessing is right on 50%; every "
        f"class counts the same)."
    )
    assert found.findings[0].strength == strength


def test_attributes_and_easy_tasks_are_separate_findings_and_the_strongest_attribute_leads():
    weaker = attribute(name="sex", cramers_v=Estimate(0.3, 0.2, 0.4, 100))
    found = verdict_of([weaker, attribute()], [cue(0.8)], None, [])
    attributes, cues = found.sentence.split("\n\n")
    assert attributes.startswith("An attribute gives the class away: the attribute 'hospital' al")
    assert " Also associated with the class: 'sex'. " in attributes
    assert cues.startswith("A very simple model could solve most of this task: the cue 'color'")
    assert "That the task is easy is no sign of a bias by itself" in cues
    assert [(each.name, each.strength) for each in found.findings] == [
        ("hospital", "strong"), ("sex", "moderate"), ("color", "strong"),
    ]  # fmt: skip


def test_an_easy_task_is_told_with_what_the_attributes_say_about_it():
    quiet = attribute(p_corrected=0.5)
    (first, second) = verdict_of([quiet], [cue(0.8)], None, []).sentence.split("\n\n")
    assert first == (
        "No attribute gives the class away: none of those tested ('hospital') predicts the class "
        "better than chance can explain."
    )
    assert second.endswith(" The attributes tested ('hospital') do not explain it.")
    alone = verdict_of([], [cue(0.8)], None, []).sentence
    assert "Without attributes, biased and balanced data look the same to it." in alone
    follows = CueByAttribute("hospital", wilson(95, 100), wilson(2, 10))
    told = verdict_of([attribute()], [cue(0.8, by_attribute=(follows,))], None, []).sentence
    assert told.endswith(
        "Here it follows 'hospital': where that conflicts with the class, the cue predicts the "
        "class of only 20% of the samples, against 95% where it matches."
    )
    ignores = CueByAttribute("hospital", wilson(95, 100), wilson(9, 10))
    told = verdict_of([attribute()], [cue(0.8, by_attribute=(ignores,))], None, []).sentence
    assert told.endswith(
        "Here it does not merely follow 'hospital': the cue predicts the class of 90% of the "
        "samples where that conflicts with the class, and of 95% where it matches."
    )


def test_a_cue_beside_the_content_is_called_a_likely_shortcut():
    told = verdict_of([], [replace(cue(0.8), name="border marks")], None, []).sentence
    assert "It looks beside the content, so it is likely a shortcut: remove it from the" in told


def test_a_share_is_rounded_but_never_to_all_or_nothing():
    found = verdict_of([attribute(accuracy=wilson(1997, 2000))], [], None, [])
    assert "the class of 99.9% of the samples" in found.sentence
    assert "of 100% of" in verdict_of([], [cue(1.0)], None, []).sentence


def test_what_is_not_significant_is_no_finding():
    found = verdict_of([attribute(p_corrected=0.06)], [cue(0.9, p_corrected=0.06)], None, [])
    assert found.findings == ()
    assert found.sentence.startswith("No shortcut was found: none of the 2 attributes and cues")


def test_what_a_model_shows_is_told_with_what_to_compare_it_with():
    groups = (ConfidentErrors("hospital", "sick", "a", wilson(30, 60)),)
    found = verdict_of([], [cue(0.9, p_corrected=0.5)], model(
        features=(FeatureFinding("hospital", 0.97, 0.52, 0.5, 0.005, 0.01),),
        flips=(Flips("color removed", "the color of every pixel is removed", wilson(64, 256)),
               Flips("border covered", "the border is covered", wilson(10, 256))),
        confident_errors=groups,
    ), [])  # fmt: skip
    assert [finding.sentence for finding in found.findings] == [
        "The model's features reveal 'hospital', whether or not its answers use it: a simple "
        "classifier reads it from them in 97% of the samples, against 52% if its values are "
        "shuffled within each class (every value counts the same).",
        "25% of the model's answers change when the color of every pixel is removed.",
        "The model is wrong with a confidence of at least 90% on 50% of the 60 samples of class "
        "'sick' with hospital 'a', against 5% of all samples.",
    ]
    assert found.sentence.endswith("verify it where these conflict with the class.")
    quiet = verdict_of([], [], model(), []).sentence
    assert quiet.endswith("No sign was found that the model follows an attribute or a cue that "
                          "was tested.")  # fmt: skip


def test_columns_that_are_no_attributes_are_told_with_how_to_test_them():
    assert list(untested_columns([])) == []
    (line,) = untested_columns(["age", "patient"])
    assert line.startswith("Columns 'age', 'patient' of the table of labels: an attribute has 2 to")
    assert line.endswith("bin numbers: --set attributes=sex,age:30,40.")


def test_what_would_have_gone_unnoticed_is_told():
    lines = list(
        untested_findings([attribute(reason="it is unknown", detectable=0.21)], [cue(0.9)], None)
    )
    assert lines == [
        "'hospital', because it is unknown.",
        "Weak effects: with this number of samples, the audit finds a cue that predicts the class "
        "of 58% of them (guessing is right on 50%) and an attribute whose Cramer's V with the "
        "class is 0.21 with a probability of about 80%. Anything weaker may go unnoticed.",
        "Whether a trained model follows any of this; audit a finished run to find out.",
    ]

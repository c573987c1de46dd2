"""The biased network's mistakes, and how they are split off."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossbias import BiasedDataset, load
from crossbias.audit.suspect_sheet import contact_sheet, suspect_pictures
from crossbias.audit.suspects import find_suspects, otsu_threshold, suspects_of
from crossbias.formatting import short


@given(st.lists(st.floats(0, 10, width=32), min_size=2, max_size=12))
@settings(deadline=None)
def test_the_split_leaves_the_two_groups_as_even_as_possible(values):
    numbers = torch.tensor(values, dtype=torch.float64)

    def unevenness(threshold: float) -> float:
        groups = (numbers[numbers <= threshold], numbers[numbers > threshold])
        return sum(float(((g - g.mean()) ** 2).sum()) for g in groups if len(g))

    best = min(unevenness(threshold) for threshold in values)
    assert unevenness(otsu_threshold(numbers)) == pytest.approx(best, abs=1e-6)


def test_candidates_are_confident_mistakes_of_high_loss_and_conflict_as_stated():
    targets = torch.tensor([0, 0, 0, 1, 1, 1])
    probabilities = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.05, 0.95]] + [[0.1, 0.9]] * 3)
    data = BiasedDataset(
        inputs=torch.zeros(6, 3, 8, 8, dtype=torch.uint8),
        targets=targets,
        attributes={"color": torch.tensor([0, 1, 1, 1, 1, -1]), "none": torch.full((6,), -1)},
        values={"none": ("a",)},
        alignments={"color": torch.eye(2, dtype=torch.bool)},
        classes=("cat", "dog"),
    )
    found = suspects_of(probabilities, data)
    assert found.rows == (2, 1)
    assert found.candidates[0][:3] == (2, "cat", "dog")
    assert found.candidates[0].confidence == pytest.approx(0.95)
    assert found.candidates[0].loss == pytest.approx(2.9957, abs=1e-3)
    assert found.accuracy == pytest.approx(4 / 6)
    (conflict,) = found.conflicting
    assert (conflict.attribute, conflict.precision.value, conflict.precision.n) == ("color", 1, 2)
    assert conflict.base == pytest.approx(2 / 5)


def test_on_a_planted_shortcut_the_candidates_are_the_conflicting_samples():
    data = load("glyphs", "train", size=600, rho=0.95, image_size=16)
    found = find_suspects(data, seed=0, device="cpu")
    (conflict,) = found.conflicting
    assert conflict.base == pytest.approx(0.05)
    assert conflict.precision.value > 0.8
    assert found.count >= 20  # of the 30 that conflict


def test_large_images_are_shrunk_and_nothing_global_is_drawn_from(blank):
    data = blank(torch.arange(8) % 2, seed=0, side=70)
    before = torch.get_rng_state()
    one, other = (find_suspects(data, seed=3, device="cpu") for _ in range(2))
    assert one == other
    assert torch.equal(before, torch.get_rng_state())


def test_pictures_show_hostile_names_as_text():
    images = torch.randint(0, 256, (30, 1, 9, 200)).to(torch.uint8)
    sheet = contact_sheet(images, [r"$\frac{", "<script>", "\n漢字\x00"] * 10)
    assert sheet.startswith(b"\x89PNG")
    assert short("\x00\n") == "\N{REPLACEMENT CHARACTER}"


def test_no_suspects_give_no_picture(blank):
    data = blank(torch.tensor([0, 1]), seed=0)
    sure = torch.eye(2)
    assert suspect_pictures(data, suspects_of(sure, data)) == ()

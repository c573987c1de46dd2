"""PGD's scores and its sampler."""

import torch

from crossbias.data.order import epoch_order
from crossbias.functional.resampling import acceptance, direction_score, magnitude_score

TARGET = torch.tensor([0, 0, 1, 1, 1, 3])


def test_scores_are_distributions_within_each_class():
    norms = torch.tensor([1.0, 3.0, 0.5, 2.0, 8.0, 0.0])
    for score in (
        magnitude_score(norms, TARGET),
        direction_score(-norms, TARGET, floor=1e-6),
    ):
        for number in (0, 1, 3):
            rows = TARGET.eq(number)
            torch.testing.assert_close(score[rows].exp().sum().item(), 1.0)


def test_density_differences_beyond_any_floating_point_number_do_not_overflow():
    density = torch.tensor([0.0, -1e5, -1e6])
    score = direction_score(density, torch.zeros(3, dtype=torch.int64), floor=0.01)
    assert score.isfinite().all()
    torch.testing.assert_close(score[1], score[2])
    torch.testing.assert_close((score[0] - score[1]).exp().item(), 100.0)


def test_the_ends_of_the_balance_are_one_score_alone():
    target = torch.zeros(3, dtype=torch.int64)
    magnitude = magnitude_score(torch.tensor([1.0, 3.0, 9.0]), target)
    direction = magnitude.flip(0)
    for balance, expected in ((0.0, [1 / 9, 1 / 3, 1]), (float("inf"), [1, 1 / 3, 1 / 9])):
        found = acceptance(magnitude, direction, target, balance=balance)
        torch.testing.assert_close(found, torch.tensor(expected).double())


def test_a_sample_fitted_exactly_gives_its_class_no_more_draws():
    """Two classes alike but for one gradient that vanishes; the rare sample counts in both."""
    norms = torch.tensor([0.1, 0.1, 5.0, 0.1, 0.0, 5.0])
    target = torch.tensor([0, 0, 0, 1, 1, 1])
    magnitude = magnitude_score(norms, target)
    found = acceptance(magnitude, magnitude, target, balance=0.0)
    torch.testing.assert_close(found, norms.double() / 5)


def rejection_sampler(probability: torch.Tensor, size: int) -> torch.Tensor:
    """Algorithm 1, as printed."""
    generator = torch.Generator().manual_seed(0)
    chosen: list[int] = []
    while len(chosen) < size:
        candidate = int(torch.randint(len(probability), (), generator=generator))
        if torch.rand((), generator=generator) <= probability[candidate]:
            chosen.append(candidate)
    return torch.tensor(chosen)


def test_drawing_in_proportion_equals_algorithm_1_in_distribution():
    """Chi-squared of both samples against the same expectation, far below its 99.9 % quantile."""
    probability = torch.tensor([1.0, 0.5, 0.25, 0.1, 0.8])
    drawn = torch.cat([epoch_order(5, epoch, 0, probability) for epoch in range(1200)])
    expected = probability / probability.sum()
    for sample in (drawn, rejection_sampler(probability, 6000)):
        counts = torch.bincount(sample, minlength=5)
        statistic = ((counts - len(sample) * expected) ** 2 / (len(sample) * expected)).sum()
        assert statistic < 18.5  # chi-squared with 4 degrees of freedom

"""Seeds of the toy problems: one in every run of the tests, three in the slow ones."""

import pytest

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]

"""The toy experiment of ReBias, section 3.2: nothing but g says which coordinate is the bias."""

import pytest

import crossbias
from crossbias import TrainConfig, load
from crossbias.methods import ERM, ReBias

from .seeds import SEEDS


@pytest.mark.parametrize("seed", SEEDS)
def test_rebias_finds_the_signal_where_plain_training_splits_the_difference(seed):
    """55 and 89 % on the de-biased points in the paper."""
    config = TrainConfig(epochs=20, batch_size=128, device="cpu", seed=seed)
    train, test = (load("toy-2d", split, seed=seed) for split in ("train", "test"))
    found = {}
    for method in (ERM(), ReBias(biased="mlp-first", lambda_f=10.0)):
        result = crossbias.fit(method, train, network="mlp", config=config)
        found[type(method)] = result.evaluate(test)["test"].overall.value
    assert found[ERM] == pytest.approx(0.55, abs=0.06)
    assert found[ReBias] > 0.85

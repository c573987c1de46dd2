"""Recipes: every file is right, and has the settings of the experiment that it names."""

import dataclasses
from pathlib import Path

import pytest

from crossbias.experiment import Experiment
from crossbias.registry import create_method
from crossbias.train.config import TrainConfig
from crossbias.train.optimizers import learning_rate

RECIPES = Path(__file__).parents[1] / "recipes"
OF_2022 = (
    "colored-mnist-erm",
    "colored-mnist-pgd",
    "noisy-colored-mnist-denoised",
    "noisy-colored-mnist-erm",
    "noisy-colored-mnist-pgd",
    "watermarked-mnist-erm",
    "watermarked-mnist-pgd",
)
OF_2023 = tuple(
    f"{data}-{method}-2023"
    for data in ("colored-mnist", "watermarked-mnist")
    for method in ("erm", "pgd")
)


def read(name: str) -> tuple[Experiment, TrainConfig]:
    experiment = Experiment.from_toml(RECIPES / f"{name}.toml", trust=True)
    return experiment, TrainConfig.from_dict(experiment.train)


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.toml")))
def test_every_recipe_names_things_that_exist(name):
    experiment, config = read(name)
    method = dict(experiment.method)
    assert create_method(method.pop("name"), **method)
    assert experiment.source.name == experiment.data["name"]
    assert experiment.recipe().name == experiment.network["name"]
    assert config.epochs


@pytest.mark.parametrize("name", OF_2022)
def test_recipes_of_2022_have_the_optimizer_of_table_4(name):
    experiment, config = read(name)
    assert experiment.network == {"name": "simple-convnet-1"}
    found = (config.optimizer, config.lr, config.momentum, config.weight_decay)
    assert found == ("sgd", 0.01, 0.8, 0.001)
    assert (config.batch_size, config.epochs, config.selection) == (256, 100, "last")
    rates = [learning_rate(config, epoch, 100) for epoch in (0, 19, 20, 40, 60, 80)]
    assert rates == pytest.approx([1e-2, 1e-2, 1e-5, 1e-8, 1e-11, 1e-14])


@pytest.mark.parametrize("name", OF_2023)
def test_recipes_of_2023_have_the_settings_of_the_release(name):
    experiment, config = read(name)
    assert experiment.network == {"name": "simple-convnet-1"}
    found = (config.optimizer, config.lr, config.momentum, config.weight_decay)
    assert found == ("sgd", 0.02, 0.9, 0.001)
    assert (config.batch_size, config.epochs, config.selection) == (128, 100, "validation-loss")
    assert config.augment[-1] == "rotate(10,nearest=true)"
    rates = [learning_rate(config, epoch, 100) for epoch in (0, 39, 40, 80)]
    assert rates == pytest.approx([2e-2, 2e-2, 2e-3, 2e-4])


@pytest.mark.parametrize("method", ["erm", "rebias", "end", "erm-end"])
def test_recipes_of_biased_mnist_have_the_weight_decay_of_the_releases(method):
    _, config = read(f"biased-mnist-{method}")
    assert (config.optimizer, config.lr, config.weight_decay) == ("adam", 1e-3, 1e-4)
    rates = [learning_rate(config, epoch, 80) for epoch in (0, 19, 20, 60)]
    assert rates == pytest.approx([1e-3, 1e-3, 1e-4, 1e-6])


@pytest.mark.parametrize(
    ("name", "like", "table", "differs"),
    [
        ("biased-mnist-biased", "biased-mnist-erm", "network", {"name": "convnet-1x1"}),
        ("colored-mnist-lnl-gray", "colored-mnist-lnl-erm", "data", {"gray": True}),
        *(
            (f"colored-mnist-lnl-{method}", "colored-mnist-lnl-lnl", "method", {"name": method})
            for method in ("blindeye", "grl", "blindeye+grl")
        ),
    ],
)
def test_a_row_to_compare_with_differs_in_one_setting(name, like, table, differs):
    experiment, other = read(name)[0], read(like)[0]
    assert experiment == dataclasses.replace(other, **{table: getattr(other, table) | differs})
    assert experiment != other

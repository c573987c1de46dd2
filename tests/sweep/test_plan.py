import re

import pytest

from crossbias.errors import CrossbiasError, Untrusted
from crossbias.sweep import Plan

TWO_METHODS = """
seeds = [0, 1]
[[method]]
name = "erm"
[[method]]
name = "pgd"
q = 0.5
"""

SPACE = "[search]\ntrials = 3\n[search.space]\n"


def tables(plan: Plan) -> list[tuple]:
    return [
        (
            job.tables["method"]["name"],
            job.tables["method"].get("q"),
            job.tables["train"].get("lr"),
            job.tables["train"]["seed"],
        )
        for job in plan.jobs()
    ]


def test_runs_are_all_combinations_seed_by_seed(plan_file):
    plan = Plan.read(plan_file(TWO_METHODS + "[grid]\ntrain.lr = [0.1, 0.2]\n"))
    assert plan.size == 8
    assert tables(plan) == [
        (method, q, lr, seed)
        for seed in (0, 1)
        for method, q in (("erm", None), ("pgd", 0.5))
        for lr in (0.1, 0.2)
    ]


def test_a_hyperparameter_in_the_grid_concerns_the_methods_that_have_it(plan_file):
    plan = Plan.read(plan_file(TWO_METHODS + "[grid]\nmethod.q = [0.6, 0.7]\n"))
    assert tables(plan) == [
        *[("erm", None, None, 0), ("pgd", 0.6, None, 0), ("pgd", 0.7, None, 0)],
        *[("erm", None, None, 1), ("pgd", 0.6, None, 1), ("pgd", 0.7, None, 1)],
    ]


def test_names_say_what_differs_and_end_in_the_hash_of_the_configuration(plan_file):
    plan = Plan.read(plan_file(TWO_METHODS + "[grid]\ntrain.lr = [0.1, 0.2]\n"))
    names = [job.name for job in plan.jobs()]
    assert len(set(names)) == 8
    assert re.fullmatch(r"erm-toy-2d-lr0\.1-seed0-[0-9a-f]{8}", names[0])
    assert re.fullmatch(r"pgd-toy-2d-q0\.5-lr0\.2-seed1-[0-9a-f]{8}", names[-1])
    more = Plan.read(
        plan_file(TWO_METHODS.replace("[0, 1]", "[0, 1, 2]") + "[grid]\ntrain.lr = [0.1, 0.2]")
    )
    assert names == [job.name for job in more.jobs()][:8]  # a plan can grow


def test_several_data_and_networks_are_alternatives(plan_file):
    text = '[[data]]\nname = "toy-2d"\nsize = 12\n[[data]]\nname = "toy-2d"\nsize = 24\n'
    text += '[[network]]\nname = "mlp"\n[[network]]\nname = "mlp"\nhidden = 4\n#[data]'
    jobs = Plan.read(plan_file(text)).jobs()
    assert [(job.tables["data"]["size"], job.tables["network"].get("hidden")) for job in jobs] == [
        *[(12, None), (12, 4), (24, None), (24, 4)]
    ]
    assert {job.data for job in jobs} == {"toy-2d (size 12)", "toy-2d (size 24)"}


def test_the_command_of_a_job_trains_the_same_run(plan_file):
    job = Plan.read(plan_file("[grid]\ntrain.augment = [[]]\ntrain.compile = [false]")).jobs()[0]
    assert job.arguments() == [
        *["crossbias", "train", "--data", "toy-2d", "--set", "data.size=12"],
        *["--set", "data.test_size=9", "--set", "train.augment=", "--set", "train.compile=false"],
        *["--set", "train.seed=0"],
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sedes = [1]", "unknown key 'sedes' (did you mean 'seeds'?)"),
        ("seeds = [1, 1]", "must be a list of different whole numbers"),
        ("seeds = []", "must be a list of different whole numbers"),
        ("seeds = [true]", "must be a list of different whole numbers"),
        ("[train]\nseed = 3", "write seeds = [...] above the tables"),
        ("[grid]\ntrain.lr = 0.1", "train.lr must be a list of values, got 0.1"),
        ("[grid]\ntrain.lr = []", "must be a list of values"),
        ("[grid]\nlr = [1]", "varies 'lr'"),
        ("[grid]\nmethod.alpha = [1]", "none of its methods has it: erm"),
        ("method = 3", "must be a table [method], or several [[method]]"),
        ("grid = 3", "must be a table, got 3"),
        ('[network]\nname = "x"\n[data]\nsize = 3', "names no data"),
        ("seeds = [", "is not TOML"),
        ("[search]\nrule = 'test-accuracy'\ntrials = 3", "rule of [search]"),
        ("[search]\n[search.space]\ntrain.lr = [1]", "needs trials"),
        ("[search]\ntrials = 0\n[search.space]\ntrain.lr = [1]", "at least 1"),
        ("[search]\ntrials = 3", "varies nothing"),
        (f"{SPACE}train.lr = {{ low = 2.0, high = 1.0 }}", "low must be"),
        (f"{SPACE}train.lr = {{ low = 0.0, high = 1.0, log = true }}", "above 0"),
        (f"{SPACE}train.lr = 3", "or { low = ..., high = ... }"),
        ("[search]\ntrails = 3", "unknown key 'trails' (did you mean 'trials'?)"),
    ],
)  # fmt: skip
def test_a_plan_with_a_mistake_is_refused_with_the_remedy(plan_file, text, words):
    with pytest.raises(CrossbiasError, match=re.escape(words)):
        Plan.read(plan_file(text))


@pytest.mark.parametrize(
    "text",
    [
        '[network]\nname = "os:system"',
        '[[method]]\nname = "os:system"',
        '[grid]\nnetwork.name = ["os:system"]',
        '[[method]]\nname = "rebias"\n[grid]\nmethod.biased = ["os:system"]',
    ],
)
def test_code_that_a_plan_names_needs_trust(plan_file, text):
    with pytest.raises(Untrusted, match="import os and call system"):
        Plan.read(plan_file(text))


def test_a_missing_plan_is_one_line(tmp_path):
    with pytest.raises(CrossbiasError, match=r"cannot read .*none\.toml: No such file"):
        Plan.read(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[method]]\nname = "emr"', "there is no method 'emr'"),
        ("[train]\nlearning_rate = 1", "has no parameter 'learning_rate'"),
        ("[train]\nlr = -1", "lr of training must be greater than 0"),
        ('[data]\nname = "toy-2d"\nsise = 1', "has no parameter 'sise'"),
    ],
)
def test_every_configuration_is_checked_before_the_first_run(plan_file, text, words):
    plan = Plan.read(plan_file(text))
    with pytest.raises(CrossbiasError, match=re.escape(words)):
        plan.check_runs(plan.jobs())

"""Names of code in a stranger's run folder or recipe: nothing is imported or called unasked."""

import json
import shutil
from pathlib import Path

import pytest

from crossbias import CrossbiasError, load_run
from crossbias.experiment import Experiment
from crossbias.networks import create_network
from crossbias.runs.config_file import read_config, write_config
from crossbias.runs.folder import RunFolder

SMALL = {
    "data": {"name": "glyphs", "size": 24, "test_size": 12},
    "network": {"name": "simple-convnet-1"},
    "train": {"steps": 1, "batch_size": 12, "device": "cpu"},
}
COMMAND = {"name": "os:system", "command": "touch called"}
OWN = "from crossbias.methods.erm import ERM\n\n\nclass Own(ERM):\n    name = ''\n"
EVIL = "from pathlib import Path\n\nPath('called').touch()\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    Experiment(**SMALL).run(folder)
    return folder


@pytest.fixture
def crafted(trained, crossbias):
    """A stranger's finished run whose configuration names what the test wants to be called."""

    def write(**tables: dict[str, object]) -> None:
        Path("evil.py").write_text(EVIL)
        shutil.copytree(trained, "run")
        folder = RunFolder("run")
        write_config(folder.config, read_config(folder.config) | tables)
        folder.finish()

    return write


def refused(crossbias, *arguments: str) -> str:
    code, out, err = crossbias(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert not Path("called").exists()
    return err


@pytest.mark.parametrize("arguments", [("evaluate", "run"), ("audit", "--run", "run")])
def test_a_run_folder_calls_nothing(crossbias, crafted, arguments):
    crafted(network=COMMAND)
    err = refused(crossbias, *arguments)
    assert "would import os and call system(command='touch called')" in err
    assert err.endswith(f"crossbias {' '.join(arguments)} --trust\n")


def test_a_resume_calls_nothing(crossbias, crafted):
    crafted(network=COMMAND)
    Path("run/done").unlink()
    assert "call system(" in refused(crossbias, "train", "--resume", "--out", "run")


@pytest.mark.parametrize("table", ["method", "data", "network"])
def test_nothing_is_imported_for_a_run_folder(crossbias, crafted, trained, table):
    own = json.loads((trained / "config.json").read_text())[table]
    crafted(**{table: {**own, "name": "evil:Anything"}})
    Path("run/done").unlink()
    err = refused(crossbias, "train", "--resume", "--out", "run")
    assert "import evil and call Anything(" in err


@pytest.mark.parametrize(
    "method",
    [
        {"name": "denoised", "inner": "evil:Anything"},
        {"name": "denoised", "inner": {"name": "evil:Anything"}},
        {"name": "denoised", "inner.name": "evil:Anything"},
        {"name": "rebias", "biased": ["convnet-1x1", "evil:g"]},
        {"name": "rebias", "biased": "convnet-1x1,evil:g"},
    ],
)
def test_methods_and_networks_inside_a_method_need_trust_too(crafted, method):
    crafted(method=method)
    with pytest.raises(CrossbiasError, match="would import evil"):
        load_run("run")
    assert not Path("called").exists()


@pytest.mark.parametrize("table", ["method", "data", "network"])
def test_a_downloaded_recipe_imports_nothing(crossbias, table):
    Path("evil.py").write_text(EVIL)
    tables = {"data": {"name": "glyphs"}, table: {"name": "evil:Anything"}}
    lines = [f'[{name}]\nname = "{values["name"]}"' for name, values in tables.items()]
    Path("recipe.toml").write_text("\n".join(lines))
    err = refused(crossbias, "train", "--config", "recipe.toml")
    assert err.endswith("crossbias train --config recipe.toml --trust\n")


def test_data_of_a_run_is_imported_for_nobody(crossbias, crafted, trained):
    data = json.loads((trained / "config.json").read_text())["data"]
    crafted(data={**data, "name": "evil:Anything"})
    refused(crossbias, "evaluate", "run")
    refused(crossbias, "evaluate", "run", "--labels", "other.csv")
    code, _, err = crossbias("evaluate", "run", "--data", "glyphs", "--set", "test_size=12")
    assert code == 0, err


def test_trust_and_names_that_the_user_types(crossbias):
    Path("own.py").write_text(OWN)
    Path("recipe.toml").write_text(
        '[method]\nname = "own:Own"\n[data]\nname = "glyphs"\nsize = 24\ntest_size = 12\n'
        '[train]\nsteps = 1\nbatch_size = 12\ndevice = "cpu"\n'
    )
    own = ["train", "--config", "recipe.toml", "--network", "simple-convnet-1", "--quiet"]
    refused(crossbias, *own, "--out", "a")
    assert crossbias(*own, "--out", "a", "--trust")[0] == 0
    assert crossbias(*own, "--out", "b", "--method", "own:Own")[0] == 0
    assert crossbias(*own, "--out", "c", "--method", "erm")[0] == 0
    refused(crossbias, "evaluate", "a")
    assert crossbias("evaluate", "a", "--trust")[0] == 0
    assert crossbias("evaluate", "c")[0] == 0
    assert load_run("a", trust=True).classes


def test_models_of_torchvision_need_no_trust_but_its_other_functions_do(crafted):
    crafted(network={"name": "torchvision.models:get_model", "name_": "x"})
    with pytest.raises(CrossbiasError, match=r"would import torchvision\.models"):
        load_run("run")
    shutil.rmtree("run")
    crafted(network={"name": "torchvision.models:resnet18"})
    with pytest.raises(CrossbiasError, match="does not fit the network"):
        load_run("run")


@pytest.mark.parametrize("name", ["subprocess:Popen", "os:sep", "collections:OrderedDict"])
def test_only_torch_models_and_functions_that_make_them_are_networks(name):
    with pytest.raises(CrossbiasError, match="not a torch model"):
        Experiment(network={"name": name}).recipe()


def test_what_a_function_makes_must_be_a_torch_model():
    with pytest.raises(CrossbiasError, match="made a str, not a torch model"):
        create_network("tempfile:gettempdir")
    with pytest.raises(CrossbiasError, match=r"the parameters of .* are not known"):
        create_network("time:monotonic")

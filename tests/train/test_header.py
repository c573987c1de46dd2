"""The header of a training, and who sees it."""

import dataclasses

import pytest
import torch
from scipy.stats import chi2_contingency
from torch import nn

import crossbias
from crossbias import BiasedDataset, TrainConfig
from crossbias.methods import ERM, PGD, EnD
from crossbias.progress import Progress
from crossbias.train.header import groups_of, shape_of

CONFIG = TrainConfig(epochs=3, batch_size=16, device="cpu", lr=0.01)


class Heard(Progress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def header(self, lines):
        self.lines += lines


def header(method, data, *, config=CONFIG, **options) -> dict[str, str]:
    """The lines of the header by subject."""
    heard = Heard()
    crossbias.fit(method, data, config=config, progress=heard, **options)
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in heard.lines}


def test_the_header_says_what_is_trained_on_what_and_how(data, validation, network):
    data = dataclasses.replace(data, name="toys", augment=("flip",))
    found = header(EnD(), data, validation=validation, network=network)
    size = sum(parameter.numel() for parameter in network.parameters())
    assert found["data"] == "toys: 48 train, 30 validation; 6 x 6 pixels, 3 channels"
    aligned = int((data.targets == data.biases).sum())
    assert found["groups"].startswith("0/0 10, 0/1 2, 0/2 4, 1/0 2, 1/1 12, ")
    assert found["groups"].endswith(f"; {aligned} aligned, {48 - aligned} conflicting by color")
    assert found["method"] == "end; uses the bias labels"
    assert found["network"] == f"Sequential, {size} parameters, new random weights"
    pace = "adam, learning rate 0.01, constant"
    assert found["training"] == f"3 epochs x 3 steps of 16 samples; {pace}"
    assert found["augment"] == "flip"
    assert found["device"] == f"cpu ({torch.get_num_threads()} threads), float32"


def test_the_header_of_a_network_by_name_and_of_a_length_in_steps(data):
    config = dataclasses.replace(
        CONFIG, steps=4, schedule="cosine", precision="bf16", augment=("crop(1)", "flip")
    )
    data = data.with_bias(None)
    found = header(ERM(), data, config=config, network="small-convnet")
    assert found["classes"] == "0 16, 1 16, 2 16"
    assert found["method"] == "erm (plain training); needs to know nothing about the bias"
    assert found["network"] == "small-convnet, 37,755 parameters, not pretrained"
    assert found["training"] == "4 steps of 16 samples; adam, learning rate 0.01, cosine"
    assert found["augment"] == "crop(1), flip"
    assert found["device"].endswith(", bf16")


def test_the_header_says_where_a_bias_is_not_associated_with_the_class(data):
    groups = {"targets": torch.arange(48) % 3, "attributes": {"color": torch.arange(48) // 3 % 2}}
    found = header(ERM(), dataclasses.replace(data, **groups, alignments={}))
    assert found["groups"].endswith(
        "; color is not associated with the class, so no sample is aligned"
    )


def test_the_header_doubts_an_association_that_may_be_chance(data):
    color = torch.arange(48) // 3 % 2
    color[0] = 1
    groups = {"targets": torch.arange(48) % 3, "attributes": {"color": color}}
    found = groups_of(dataclasses.replace(data, **groups, alignments={}))
    p = chi2_contingency([[7, 9], [8, 8], [8, 8]]).pvalue
    told = f"{24 + 1} aligned, 23 conflicting by color"
    assert found.endswith(f"; {told}, which may be chance (p=.{1000 * p:.0f}, chi-square test)")


class Faces(nn.Module):
    """A reader's own model."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 4, 3), nn.Linear(4, 3)

    def forward(self, inputs):
        return self.last(self.first(inputs).relu().mean((2, 3)))


def test_a_model_of_ones_own_is_called_by_its_class(data):
    found = header(ERM(), data, network=Faces())
    assert found["network"] == "Faces, 127 parameters, new random weights"


def test_a_trained_model_is_said_to_keep_its_weights(data, network):
    found = header(PGD(), data, network=network, fresh=False)
    assert found["network"].endswith("starts with the weights of the given model")


def test_of_many_groups_only_the_totals_and_the_smallest_are_told():
    targets = torch.arange(4).repeat_interleave(10)
    tone = targets.clone()
    tone[0], tone[1], tone[39] = 2, -1, 0
    data = BiasedDataset(
        inputs=torch.zeros(40, 2),
        targets=targets,
        attributes={"tone": tone},
        bias="tone",
        classes=("a", "b", "c", "d"),
        values={"tone": ("w", "x", "y", "z")},
    )
    assert groups_of(data) == (
        "6 of 16 have samples, the smallest is a/y with 1; 37 aligned, 2 conflicting by tone, "
        "1 without a value"
    )
    assert shape_of(data) == "vectors of 2 numbers"


def test_clips_and_images_that_are_cut():
    clips = BiasedDataset(
        inputs=torch.zeros(1, 3, 8, 12, 12, dtype=torch.uint8), targets=torch.zeros(1).long()
    )
    assert shape_of(clips) == "8 frames of 12 x 12 pixels, 3 channels"
    images = dataclasses.replace(clips, inputs=clips.inputs[:, :1, 0], crop=10)
    assert shape_of(images) == "10 x 10 pixels, 1 channels"


def test_fit_shows_its_progress_unless_told_otherwise(data, network, capsys):
    crossbias.fit(ERM(), data, network=network, config=CONFIG)
    shown = capsys.readouterr().err
    assert shown.startswith("data      tiny: 48 train; 6 x 6 pixels, 3 channels\n")
    assert shown.splitlines()[-1].startswith("final 3/3  ")
    crossbias.fit(ERM(), data, network=network, config=CONFIG, progress=False)
    assert capsys.readouterr() == ("", "")


class Breaks(ERM):
    """Fails in its first batch, as a network that does not fit the data."""

    name = ""

    def loss(self, batch):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def test_a_failure_in_the_first_batch_leaves_no_folder(data, network, tmp_path):
    with pytest.raises(crossbias.CrossbiasError, match="RuntimeError: mat1 and mat2"):
        crossbias.fit(Breaks(), data, network=network, config=CONFIG, folder=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_what_the_network_refuses_leaves_no_folder(data, tmp_path):
    class Refuses(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(108, 3)

        def __deepcopy__(self, memo):
            raise crossbias.CrossbiasError("cannot be copied")

        def forward(self, inputs):
            return self.fc(inputs.flatten(1))

    network = crossbias.Network(Refuses(), nn.Linear(3, 3))
    with pytest.raises(crossbias.CrossbiasError, match="cannot be copied"):
        crossbias.fit(ERM(), data, network=network, config=CONFIG, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()

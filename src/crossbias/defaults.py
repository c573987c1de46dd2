"""Settings for a person's own images where nothing is said.

They follow from what is there: the number of training images, a GPU or none, and pretrained
weights on this machine or none. On a CPU the aim is a useful model in minutes. Data sets with a
name have settings of their own, and these rules do not concern them.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from PIL import Image
from torch import nn

from crossbias.data.dataset import BiasedDataset
from crossbias.data.images.encoded_images import EncodedImage
from crossbias.data.lazy_rows import LazyRows
from crossbias.data.own.table_source import TableSource
from crossbias.formatting import setting
from crossbias.networks.recipe import Recipe
from crossbias.seeds import global_randomness_kept

BACKBONES: Final = ("resnet18", "resnet50", "efficientnet_lite0", "mobilenetv2_100")
"""Networks of which pretrained weights are used where they are on this machine, best first."""

_OWN: Final = ("folder:", "hf:", "webdataset:")
_LENGTHS: Final = {  # (GPU, pretrained): images to train on, fewest and most epochs
    (False, False): (42_000, 5, 100),
    (False, True): (14_000, 3, 20),
    (True, False): (200_000, 20, 100),
    (True, True): (40_000, 5, 30),
}
_SIDES: Final = {(False, False): 64, (False, True): 96, (True, False): 128, (True, True): 224}
_RATES: Final = {"adam": 1e-3, "adamw": 1e-3, "adamp": 1e-3, "sgd": 5e-2}
_GENTLY: Final = 0.1  # times the rate, for trained weights that a full step could ruin


@dataclass(frozen=True)
class Chosen:
    """Network and image size for one's own images, chosen before the images are read.

    Args:
        recipe: The network, chosen or given.
        gpu: Whether a GPU trains.
        tables: What was chosen, by table of the experiment.
    """

    recipe: Recipe
    gpu: bool
    tables: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(
        cls,
        source: TableSource,
        *,
        data: Mapping[str, Any],
        network: Mapping[str, Any],
        gpu: bool,
        seed: int,
    ) -> "Chosen":
        """Choose what ``data`` and ``network`` leave open; ``source`` gets the image size."""
        picked: dict[str, Any] = {} if "name" in network else {"name": source.network}
        if not network:
            picked = network_for((source.channels, 1, 1), backbone=cached_backbone())
        options = {**picked, **network}
        recipe = Recipe(options.pop("name"), options)
        if "size" in data:
            return cls(recipe, gpu, {"network": picked})
        insists = recipe.options.get("img_size") or side_of_network(recipe.name)
        largest = side_of_images(
            LazyRows(source.items.__getitem__, source.rows("train", seed=seed))
        )
        fitting = side_for(gpu=gpu, pretrained=is_pretrained(recipe), largest=largest)
        source.size = insists or fitting
        return cls(recipe, gpu, {"network": picked, "data": {"size": source.size}})

    def training(self, data: BiasedDataset, given: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of ``TrainConfig`` that are not given."""
        shape, pretrained = data.inputs.shape[1:], is_pretrained(self.recipe)
        gently = pretrained and not normalizes_batches(self.recipe, shape)
        return training_for(
            len(data), shape, gpu=self.gpu, pretrained=pretrained, gently=gently, given=given
        )

    def remarks(self, training: Mapping[str, Any]) -> list[str]:
        """Lines that say what was chosen and how to change it."""
        lines = []
        if options := options_in_words(**self.tables, train=training):
            lines.append(f"chosen    {options}; give any of these to change it")
        if self.tables["network"] and not is_pretrained(self.recipe):
            lines.append(
                f"hint      pretrained weights usually give a better model, and none are on this "
                f"machine: --set network.pretrained=true downloads those of {self.recipe.name}"
            )
        return lines


def is_pretrained(recipe: Recipe) -> bool:
    """Whether a network starts with trained weights."""
    return bool(recipe.options.get("pretrained") or recipe.options.get("weights"))


def normalizes_batches(network: Recipe | nn.Module, shape: Sequence[int]) -> bool:
    """Whether a network has batch normalization, with which it stands large steps.

    Args:
        network: The network, or what builds it.
        shape: Shape of one sample.
    """
    if isinstance(network, Recipe):
        try:
            with global_randomness_kept(torch.device("cpu")):
                network = network.untrained().build(num_classes=2, shape=shape)
        except Exception:  # whatever is wrong with it is said when it is built to be trained
            return False
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules())


def is_own(data: BiasedDataset) -> bool:
    """Whether data is a person's own: from a folder, from a table or from tensors."""
    return not data.origin or data.name.startswith(_OWN)


def network_for(shape: Sequence[int], *, backbone: str | None = None) -> dict[str, Any]:
    """The network for samples of a shape, as name and options.

    Args:
        shape: Shape of one sample.
        backbone: A network with pretrained weights on this machine, if there is one.

    >>> network_for((3, 64, 64)), network_for((20,), backbone="resnet18")
    ({'name': 'resnet18'}, {'name': 'mlp'})
    """
    if len(shape) != 3:
        return {"name": "mlp" if len(shape) == 1 else "resnet18-3d"}
    return {"name": backbone, "pretrained": True} if backbone else {"name": "resnet18"}


def side_for(*, gpu: bool, pretrained: bool, largest: int | None = None) -> int:
    """The side of images in pixels; ``largest`` is that of the files if it is known.

    >>> side_for(gpu=False, pretrained=False), side_for(gpu=True, pretrained=True, largest=180)
    (64, 180)
    """
    side = _SIDES[gpu, pretrained]
    return side if largest is None else min(side, largest)


def training_for(
    samples: int,
    shape: Sequence[int],
    *,
    gpu: bool,
    pretrained: bool,
    gently: bool = False,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fields of ``TrainConfig`` for data of a size, without those that are given.

    Args:
        samples: Number of training samples.
        shape: Shape of one sample.
        gpu: Whether a GPU trains.
        pretrained: Whether the network starts with trained weights.
        gently: Whether these weights need small steps.
        given: The fields that a person has set. They have the last word.

    >>> training_for(1400, (20,), gpu=False, pretrained=False, given={"lr": 0.1, "augment": ()})
    {'epochs': 30, 'batch_size': 64, 'optimizer': 'adamw', 'weight_decay': 0.05, \
'schedule': 'cosine'}
    """
    given = {"epochs": None, **given} if given and "steps" in given else given or {}
    images, fewest, most = _LENGTHS[gpu, pretrained]
    optimizer = given.get("optimizer", "adamw")
    rate = _RATES.get(optimizer, 1e-3)
    chosen = {
        "epochs": min(max(round(images / samples), fewest), most),
        "batch_size": 64 if samples < 10_000 else 128,
        "optimizer": optimizer,
        "lr": rate * _GENTLY if gently or (pretrained and optimizer == "sgd") else rate,
        "weight_decay": 0.05 if optimizer == "adamw" else 0.0,
        "schedule": "cosine",
        "augment": _augmentation(shape),
    }
    return {name: value for name, value in chosen.items() if name not in given}


def _augmentation(shape: Sequence[int]) -> tuple[str, ...]:
    """Mirrored and cut out at random; small images lose no resolution."""
    if len(shape) == 1:
        return ()
    side = min(shape[-2:])
    return ("flip", "random-resized-crop(0.5,1)" if side >= 48 else f"crop({max(side // 8, 1)})")


def side_of_images(images: Sequence[EncodedImage], most: int = 20) -> int | None:
    """The median shorter side of some of the images; None where none can be read."""
    sides = []
    for encoded in images[:: max(len(images) // most, 1)][:most]:
        try:
            with encoded.open() as file, Image.open(file) as image:
                sides.append(min(image.size))
        except Exception:  # decoding names what is wrong with a file
            continue
    return int(statistics.median(sides)) if sides else None


def side_of_network(name: str) -> int | None:
    """The side that a network of timm insists on, such as 224; None where it takes any."""
    import timm

    found = timm.get_pretrained_cfg(name) if ":" not in name and timm.is_model(name) else None
    return int(found.input_size[-1]) if found is not None and found.fixed_input_size else None


def cached_backbone() -> str | None:
    """The first of ``BACKBONES`` whose pretrained weights are in the cache of this machine."""
    import timm
    from huggingface_hub import try_to_load_from_cache

    for name in BACKBONES:
        found = timm.get_pretrained_cfg(name)
        if found is not None and found.hf_hub_id is not None:
            files = [
                try_to_load_from_cache(found.hf_hub_id, file)
                for file in ("model.safetensors", "pytorch_model.bin")
            ]
            if any(isinstance(file, str) for file in files):
                return name
    return None


def options_in_words(**tables: Mapping[str, Any]) -> str:
    """Settings as the options of the command line that would give them.

    >>> options_in_words(network={"name": "mlp"}, data={"size": 64}, train={"augment": ("flip",)})
    '--network mlp --set data.size=64 --set train.augment=flip'
    """
    written = []
    for table, values in tables.items():
        for name, value in values.items():
            if name == "name":
                written.append(f"--{table} {value}")
            else:
                text = ",".join(value) if isinstance(value, tuple) else setting(value)
                text = f"'{table}.{name}={text}'" if "(" in text else f"{table}.{name}={text}"
                written.append(f"--set {text}")
    return " ".join(written)

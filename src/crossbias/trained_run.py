"""load_run: the model of a finished run, from its folder alone, ready to answer and be judged."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from crossbias.data import DATASETS, BiasedDataset
from crossbias.data.images.decoding import Fit
from crossbias.data.images.given_images import as_inputs
from crossbias.data.matching import strange_names
from crossbias.data.published.image_source import ImageSource
from crossbias.errors import CrossbiasError
from crossbias.networks import Network, Recipe, as_network
from crossbias.registry import create_method
from crossbias.runs.config_file import read_config
from crossbias.runs.folder import RunFolder, check_finished
from crossbias.runs.stored import load_predictions
from crossbias.train.evaluation import metrics_of, predict
from crossbias.train.record import alignments_in, as_in_training, normalization_of
from crossbias.trust import check_trusted
from crossbias.verify import Metrics, Positive
from crossbias.verify.cells import Alignment
from crossbias.verify.thresholds import Labeled

_FACTS = ("shape", "classes", "values", "aligned", "pixels")  # of the training data


class Answers(NamedTuple):
    """What a model says about some images."""

    classes: list[str]  # the most probable class of each image
    probabilities: Tensor  # (n, classes of the run)


@dataclass(frozen=True, eq=False, repr=False)
class TrainedRun:
    """The model of a finished run and what is needed to use it without the training data.

    Args:
        folder: The run folder.
        network: The trained network, in evaluation mode; move it with ``network.to(device)``.
        config: What the folder's ``config.json`` holds.
    """

    folder: Path
    network: Network
    config: dict[str, Any]

    def __repr__(self) -> str:
        method, data = self.config["method"]["name"], self.config["data"]["name"]
        shape = " x ".join(map(str, self.facts["shape"]))
        return f"<{self.folder}: {method} on {data}, {shape}, classes {', '.join(self.classes)}>"

    @property
    def facts(self) -> dict[str, Any]:
        """What the run records of its training data: shape, names, alignment, normalization."""
        return {name: self.config["data"][name] for name in _FACTS}

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the logits."""
        return tuple(self.facts["classes"])

    @property
    def bias(self) -> str | None:
        """The attribute that the run treated as the bias, if any."""
        bias: str | None = self.config["data"]["bias"]
        return bias

    @cached_property
    def alignments(self) -> dict[str, Alignment]:
        """For every attribute, which values went along with which class in the training data."""
        return alignments_in(self.facts)

    @property
    def fit(self) -> Fit:
        """How image files became the images of the training."""
        kind = DATASETS.get(self.config["data"]["name"])
        if kind is not None and issubclass(kind, ImageSource):
            return kind.fit
        channels, side = self.facts["shape"][0], self.facts["shape"][-1]
        depth = self.config["data"].get("depth") or 16
        return Fit(side, self.config["data"].get("fit", "crop"), channels, depth)

    def predict(self, images: Any) -> Answers:
        """Answer for images, which are resized and normalized as those of the training.

        Args:
            images: ``(n, C, H, W)`` uint8 tensor or array, or ``(n, H, W, 3)`` uint8 array; a list
                of files, PIL images or ``(H, W)`` or ``(H, W, 3)`` uint8 arrays; or one of these.
                Vectors are an ``(n, D)`` floating-point tensor.

        Returns:
            The most probable class of each image, and the probabilities of all classes.
        """
        inputs = as_inputs(images, self.facts["shape"], self.fit)
        mean, std = normalization_of(self.facts)
        data = BiasedDataset(
            inputs=inputs,
            targets=torch.zeros(len(inputs), dtype=torch.int64),
            classes=self.classes,
            crop=self.facts["pixels"]["crop"],
            mean=mean,
            std=std,
        )
        probabilities = predict(self.network, data).probabilities
        return Answers([self.classes[at] for at in probabilities.argmax(1)], probabilities)

    def positive(
        self,
        name: str | None,
        *,
        prevalence: float | None = None,
        threshold: float | str | None = None,
    ) -> Positive | None:
        """The class to be found, to judge by; None for None.

        Args:
            name: One of the classes.
            prevalence: Share of the class where the model will be used, for PPV and NPV; that of
                the judged samples if left out.
            threshold: Probability from which a sample is called positive, or a rule such as
                ``"sensitivity>=.9"``, which chooses one on the validation split of the run.
        """
        path, chosen_on = RunFolder(self.folder).predictions, None
        stored = load_predictions(path).get("validation") if path.exists() else None
        if stored is not None:
            chosen_on = Labeled("validation", stored.probabilities, stored.target)
        return Positive.wanted(
            name, self.classes, prevalence=prevalence, threshold=threshold, validation=chosen_on
        )

    def evaluate(
        self, data: BiasedDataset, *, any_size: bool = False, positive: Positive | None = None
    ) -> Metrics:
        """Judge the model on data, by the alignment of the run's training data.

        Classes and bias values are matched by name with those of the training; ones that the
        training did not have are refused. Attributes with other values, or that the training did
        not have, are reported by group only: nobody knows which groups are aligned.

        Args:
            data: The data, loaded with the size and channels of the training.
            any_size: Accept images of another height and width than those of the training.
            positive: The class to be found, as the method ``positive`` makes it.
        """
        data = as_in_training(data, self.facts, any_size=any_size)
        tables = {
            name: table
            for name, table in self.alignments.items()
            if name in data.attributes
            and not strange_names(data.attributes[name], data.values[name], table.values)
        }
        try:
            answers = predict(self.network, data)
        except RuntimeError as error:
            if not any_size:
                raise
            raise CrossbiasError(
                f"the network of {self.folder} cannot take images of "
                f"{tuple(data.inputs.shape[1:])}: {str(error).splitlines()[0]}"
            ) from error
        return metrics_of(answers, replace(data, alignments={}), None, tables, positive)


def load_run(
    folder: Path | str, *, network: nn.Module | None = None, trust: bool = False
) -> TrainedRun:
    """Load the model of a finished run. The training data is not needed.

    Args:
        folder: The folder that ``crossbias train --out`` or ``fit(..., folder=)`` wrote.
        network: The torch model that ``fit`` was given, where it was not given by name. It is
            copied, and the copy gets the trained weights.
        trust: Import a method or a network of somebody's own that the folder names, such as
            ``my_module:MyNetwork``. This runs code: read it first.
    """
    folder = Path(folder)
    files = RunFolder(folder)
    if files.config.exists():
        check_finished(folder)
        files.check(files.config, files.model)
    config = read_config(files.config)
    if not trust:
        named = ["method"] if network is not None else ["method", "network"]
        check_trusted({table: config[table] for table in named}, files.config)
    facts = config["data"]
    built = create_method(**config["method"]).network_for(_builder(config, folder, network))
    try:
        built.load_state_dict(files.load_model())
    except RuntimeError as error:
        raise CrossbiasError(
            f"{files.model} does not fit the network; pass network= the model that was trained "
            f"({str(error).splitlines()[-1].strip()})"
        ) from error
    built.normalization = normalization_of(facts)
    return TrainedRun(folder, built.eval(), config)


def _builder(
    config: dict[str, Any], folder: Path, given: nn.Module | None
) -> Callable[[], Network]:
    """What builds the network that the method was given."""
    if given is not None:
        return lambda: as_network(deepcopy(given))
    options = dict(config["network"])
    if (name := options.pop("name")) is None:
        raise CrossbiasError(
            f"the network of {folder} was made in Python, not by name; "
            f"pass it: crossbias.load_run({str(folder)!r}, network=model)"
        )
    facts = config["data"]
    sizes: dict[str, Any] = {"num_classes": len(facts["classes"]), "shape": tuple(facts["shape"])}
    # The weights are about to be replaced by the trained ones: pretrained ones are not fetched.
    return lambda: Recipe(name, options).untrained().build(**sizes)

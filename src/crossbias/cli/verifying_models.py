"""``crossbias verify --model``: run models over images, and judge what they answer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from crossbias.answers import Verification, verify_table
from crossbias.errors import CrossbiasError
from crossbias.models import load_model
from crossbias.models.answered_tables import judged_models
from crossbias.models.data_for_models import data_for
from crossbias.networks.outside import OutsideModel
from crossbias.progress import Progress
from crossbias.train.normalization import Normalize

OutputKind = StrEnum("OutputKind", ["logits", "probabilities"])  # what a model gives

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="ONNX file, or code that gives a model, my_package:load_model, which is imported and "
        "run. It answers the images of --data. May be repeated to compare models.",
    ),
]
Outputs = Annotated[
    OutputKind | None,
    typer.Option(help="What --model gives.", show_default="told by its first answers"),
]
NormalizeText = Annotated[
    str | None,
    typer.Option(
        "--normalize",
        metavar="HOW",
        help="How pixels are normalized for --model: none (0 to 1), bytes (0 to 255), imagenet, "
        "data (mean and deviation of the data set), or MEAN/STD such as .5,.5,.5/.2,.2,.2.",
        show_default="what an exported file says",
    ),
]


def verified_models(
    models: Sequence[str],
    data: Mapping[str, Any],
    chosen: dict[str, Any],
    *,
    normalize: str | None,
    outputs: OutputKind | None,
    progress: Progress,
) -> Verification:
    """Run models over data and judge their answers.

    Args:
        models: Files or names of code.
        data: Name and options of the data.
        chosen: Keywords of ``verify_table`` that the user gave.
        normalize: How pixels are normalized.
        outputs: What the models give.
        progress: Receives reports while files are read.
    """
    loaded = [named_model(model, chosen["classes"], outputs) for model in models]
    experiment = data_for(loaded[0], data, chosen["bias"], progress)
    rule = isinstance(chosen["threshold"], str) and ">" in chosen["threshold"]
    further = chosen["validation"] in experiment.source.available_splits
    judged = judged_models(
        loaded,
        experiment,
        bias=chosen["bias"],
        normalize=written_normalization(normalize),
        split=chosen["split"],
        validation=chosen["validation"] if rule and further else None,
    )
    columns = {**chosen, **judged.columns}
    if chosen["aligned"] is not None:
        columns["training"] = None
    found = verify_table(judged.tables, **columns)
    return replace(found, source=judged.source, notes=(*judged.notes, *found.notes))


def named_model(
    name: str, classes: Sequence[str] | None, outputs: OutputKind | None
) -> OutsideModel:
    """The model that a person named."""
    kind: Any = None if outputs is None else outputs.value  # a member's value is just a str
    return load_model(name, classes=classes, outputs=kind)


def written_normalization(text: str | None) -> Normalize | None:
    """A choice of ``--normalize``; numbers are mean and deviation by channel.

    >>> written_normalization(".5,.4/.2,.3"), written_normalization("imagenet")
    (((0.5, 0.4), (0.2, 0.3)), 'imagenet')
    """
    if text is None or "/" not in text:
        named: Any = text
        if text not in (None, "none", "bytes", "imagenet", "data"):
            raise _unreadable(text)
        return named  # type: ignore[no-any-return]
    try:
        mean, std = (tuple(map(float, part.split(","))) for part in text.split("/"))
    except ValueError:
        raise _unreadable(text) from None
    return mean, std


def _unreadable(text: str | None) -> CrossbiasError:
    return CrossbiasError(
        f"--normalize is {text!r}; write none, bytes, imagenet, data, or MEAN/STD such as "
        f".5,.5,.5/.2,.2,.2"
    )

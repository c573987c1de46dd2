"""Data on which somebody's model is judged: read at the size that the model takes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crossbias.data import find_source
from crossbias.data.own.columns import chosen_columns
from crossbias.data.own.table_source import TableSource
from crossbias.data.source import Source
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment
from crossbias.networks.outside import OutsideModel
from crossbias.parameters import parameters_of
from crossbias.progress import Progress

_WHOLE: Final = {"validation": 0.0, "test": 1.0}  # a table without a column of splits is one test
_CHANNELS: Final = (1, 3)  # of images of a folder


def data_for(
    model: OutsideModel,
    options: Mapping[str, Any],
    attributes: Sequence[str],
    progress: Progress | None = None,
) -> Experiment:
    """The data that options name, read at the size and with the channels that a model takes.

    Args:
        model: The model.
        options: Name and options of the data; a given size is kept, and checked by the model.
        attributes: Columns of one's own table that become attributes, each as ``--bias`` has it.
        progress: Receives reports while files are read.
    """
    if "name" not in options:
        raise CrossbiasError("a model is judged on images; name them: --data folder:PATH")
    chosen = sizes_for(model, options["name"])
    if issubclass(find_source(options["name"]), TableSource):
        chosen |= {**_WHOLE, "attributes": [",".join(attributes)] if attributes else ()}
    experiment = Experiment(data={**chosen, **options})
    experiment.source.judged_only = True
    experiment.source.progress = progress or Progress()
    return experiment


def attribute_names(source: Source, text: str) -> list[str]:
    """The attributes of the data that ``--bias hospital,age:30,40`` names."""
    if isinstance(source, TableSource):
        return [str(column) for column in chosen_columns(text, source.table)]
    return list(filter(None, (part.strip() for part in text.split(","))))


def sizes_for(model: OutsideModel, name: str | None) -> dict[str, Any]:
    """The options of a source by which images become what a model takes.

    Args:
        model: The model.
        name: The source; of a generated data set ``size`` is the number of samples.
    """
    if name is None or model.shape is None or len(model.shape) != 3:
        return {}
    kind = find_source(name)
    channels, height, width = model.shape
    known = {*parameters_of(kind)} - (set() if issubclass(kind, TableSource) else {"size"})
    found = {option: value for option, value in model.reading.items() if option in known}
    if height is not None and height == width:
        found |= {option: height for option in ("size", "image_size") if option in known}
    if channels in _CHANNELS and "channels" in known:
        found["channels"] = channels
    return found

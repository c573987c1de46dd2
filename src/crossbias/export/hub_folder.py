"""save_pretrained: the model of a run as a folder that a model hub shows and others can load."""

from pathlib import Path, PurePath
from typing import Any, Final

from crossbias.documents.model_card import card_of
from crossbias.errors import CrossbiasError
from crossbias.runs.config_file import read_config
from crossbias.runs.files import whole_folder, write_atomically, write_json
from crossbias.runs.folder import RunFolder
from crossbias.runs.read import read_run

CARD: Final = "README.md"  # where a hub looks for the card
_PATHS: Final = ("name", "labels")  # options of data that name files


def save_pretrained(run: Path | str, folder: Path | str) -> Path:
    """Write weights, configuration and card of a finished run to a new folder.

    ``crossbias.load_run`` loads the folder. It holds ``model.safetensors``, ``config.json``,
    the card ``README.md``, and ``done`` with hashes of the first two. Folders of the machine that
    trained the model and the command line are left out of the configuration.

    Args:
        run: The run folder.
        folder: The folder to write, which does not exist or is empty.

    Raises:
        CrossbiasError: The run is not finished or damaged, or the folder cannot be written.
    """
    found, target = RunFolder(run), Path(folder)
    finished = read_run(found.path)
    if not found.model.exists():
        raise CrossbiasError(f"{found.path} has no trained model; train the run again")
    found.check(found.model)
    card = card_of(finished).encode(errors="replace")
    with whole_folder(target) as new:
        own = RunFolder(new)
        own.save_model(found.load_model())
        write_json(own.config, published(read_config(found.config)))
        write_atomically(new / CARD, lambda file: file.write(card))
        own.finish()
    return target


def published(config: dict[str, Any]) -> dict[str, Any]:
    """A run's configuration without the command line and the folders of a machine.

    >>> config = {"command": "crossbias train", "data": {"name": "folder:/home/me/x-rays"},
    ...           "network": {"name": "resnet18", "weights": "/home/me/resnet.pth"}}
    >>> published(config)["data"], published(config)["network"]
    ({'name': 'folder:x-rays'}, {'name': 'resnet18', 'weights': 'resnet.pth'})
    """
    data = {
        key: _without_folders(value) if key in _PATHS and isinstance(value, str) else value
        for key, value in config["data"].items()
        if key != "root"
    }
    network = {
        key: _without_folders(value) if key == "weights" and isinstance(value, str) else value
        for key, value in config["network"].items()
    }
    kept = {key: value for key, value in config.items() if key != "resumes"}
    return {**kept, "command": "", "data": data, "network": network}


def _without_folders(text: str) -> str:
    """A path, or the path of ``folder:PATH``, without the folders that it is in."""
    kind, colon, path = text.rpartition(":")
    return f"{kind}{colon}{PurePath(path).name}"

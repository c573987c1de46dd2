"""The content of ``config.json``: written with a checksum, and read with every part checked."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from crossbias.errors import CrossbiasError
from crossbias.runs.files import checksum, read_json, write_json

_Check = Callable[[Any], bool]


def write_config(path: Path, config: dict[str, Any]) -> None:
    """Write the configuration of a run, whole or not at all."""
    write_json(path, config | {"crc32": checksum(config)})


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of a run, without its checksum.

    The hashes in ``done`` tell whether that of a finished run was changed. Until there are any,
    the checksum does.

    Raises:
        CrossbiasError: The file does not exist, or is not what a run writes.
    """
    check_is_run(path)
    config = read_json(path)
    known = config.pop("crc32", None) if isinstance(config, dict) else None
    for name, check in _PARTS.items():
        value = config
        for key in name.split("."):
            if not isinstance(value, dict) or key not in value:
                raise _damaged(path, f"it lacks {name}")
            value = value[key]
        if not check(value):
            raise _damaged(path, f"{name} cannot be {_shown(value)}")
    if not _is_consistent(config["data"]):
        raise _damaged(path, "shape, classes, values and aligned of data do not fit together")
    if not _declares_figures(config["page"]):
        raise _damaged(
            path,
            "page must hold figures, a list of stages for each, and curves, a title and a label "
            "for each",
        )
    if not path.with_name("done").exists() and known != checksum(config):
        raise _damaged(path, "it was changed since the run wrote it, which its checksum shows")
    return dict(config)


def check_is_run(path: Path) -> None:
    """Refuse a folder that has no ``config.json``."""
    if not path.exists():
        raise CrossbiasError(
            f"{path.parent} is not a run folder: it has no config.json; name a folder that "
            f"`crossbias train --out FOLDER` wrote"
        )


def _damaged(path: Path, what: str) -> CrossbiasError:
    return CrossbiasError(
        f"{path} is damaged: {what}; restore it from a copy, or train the run again"
    )


def _shown(value: Any) -> str:
    text = f"a number of {value.bit_length()} bits" if isinstance(value, int) else repr(value)
    text = repr(value) if isinstance(value, int) and value.bit_length() < 64 else text
    return text if len(text) < 60 else f"{text[:60]}..."


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _count(value: Any) -> bool:
    return _whole(value) and value > 0


def _number(value: Any) -> bool:
    return _whole(value) or (isinstance(value, float) and math.isfinite(value))


def _optional(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


def _list(check: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _table(check: _Check = lambda value: True) -> _Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


_PARTS: Final[dict[str, _Check]] = {
    "method": _table(),
    "method.name": _text,
    "paper": _optional(_text),
    "supervision": _text,
    "selection": _text,
    "page": lambda value: True,
    "data": _table(),
    "data.name": _text,
    "data.bias": _optional(_text),
    "data.hashes": _table(_text),
    "data.shape": _list(_count),
    "data.classes": _list(_text),
    "data.values": _table(_list(_text)),
    "data.aligned": _table(_list(_list(_text))),
    "data.pixels": _table(),
    "data.pixels.crop": lambda value: _whole(value) and value >= 0,
    "data.pixels.mean": _list(_number),
    "data.pixels.std": _list(_number),
    "network": _table(),
    "network.name": _optional(_text),
    "train": _table(),
    "train.seed": _whole,
    "version": _text,
    "command": _text,
    "commit": _optional(_text),
    "environment": _table(_text),
    "environment.torch": _text,
    "environment.device": _text,
}
"""The parts of the file and what they may be; the first that is wrong is named."""


def _is_consistent(data: dict[str, Any]) -> bool:
    shape, pixels = data["shape"], data["pixels"]
    channels = {len(pixels["mean"]), len(pixels["std"])}
    return (
        bool(shape and data["classes"])
        and (len(shape) == 1 or channels <= {1, shape[0]})
        and data["bias"] in (None, *data["values"])
        and all(name in data["values"] for name in data["aligned"])
        and all(len(rows) == len(data["classes"]) for rows in data["aligned"].values())
    )


def _declares_figures(page: Any) -> bool:
    try:
        figures, curves = (list(page.get(part, {}).values()) for part in ("figures", "curves"))
    except AttributeError:
        return False
    lists = all(isinstance(each, list) for each in figures + curves)
    texts = lists and all(isinstance(text, str) for each in figures + curves for text in each)
    return texts and all(len(curve) == 2 for curve in curves)

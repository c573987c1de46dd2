"""Config files, tables and images with structural damage."""

import csv
import struct
import sys
import zlib
from pathlib import Path

from hypothesis import strategies as st

from benchmarks.fire.forks import Outcome, run
from benchmarks.fire.fuzz import Body, sparingly
from benchmarks.fire.mutations import SIDES, broken
from benchmarks.fire.subjects import OWN_IMAGES, Arena, write_images
from crossbias.experiment import Experiment

_RECIPE = """
[method]
name = "end"
alpha = 1.0

[data]
name = "glyphs"
size = 48
rho = 0.9

[network]
name = "convnet"
kernel = 3

[train]
epochs = 3
lr = 0.01
device = "cpu"
"""
_HOSTILE = st.text(
    st.sampled_from("ab =+-@\t\r\x00\x07\x1b\x7f\x9b\u061c\u200f\u202e\u2028\u2066,\"'<&%\\$"),
    min_size=1, max_size=6,
)  # fmt: skip
_WORDS = (b'"', b"[", b"]", b"=", b"\n", b"true", b"1e999", b"[[data]]", b"nan", b"-", b"name")


def _toml(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """A config file; whether it can be used is known before data is made."""
    path.mkdir()
    text = _RECIPE.encode()
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(_WORDS)) + text[at:]
    else:
        text = broken(text, data)
    (path / "recipe.toml").write_bytes(text)

    def prepare() -> None:
        sparingly()
        Experiment.split = lambda *_: sys.exit(0)  # type: ignore[method-assign]

    arguments = ("--config", path / "recipe.toml", "--out", path / "run", "--quiet")
    return run("train", *arguments, prepare=prepare)


def _shown(path: Path) -> Outcome:
    sheet = ("--sheet", path / "sheet.png", "--set", "size=8")
    return run("data", "show", f"folder:{path}", *OWN_IMAGES, *sheet, prepare=sparingly)


def _csv(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """The table of a folder of images."""
    write_images(path, 12)
    file = path / "labels.csv"
    file.write_bytes(broken(file.read_bytes(), data))
    return _shown(path)


def _names(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """Names of classes, values and columns that steer terminals, or are formulas."""
    write_images(path, 12)
    file, names = path / "labels.csv", data.draw(st.lists(_HOSTILE, min_size=4, max_size=4))
    with file.open(newline="") as opened:
        header, *rows = csv.reader(opened)
    table = [[row[0], names[int(row[1])], names[2 + (row[2] == "north")]] for row in rows]
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows([header, *table])
    return _shown(path)


def _headers(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """The first bytes of an image."""
    write_images(path, 12)
    file = path / data.draw(st.sampled_from(["0.png", "1.jpg", "2.bmp", "3.gif"]))
    file.write_bytes(broken(file.read_bytes(), data, within=64))
    return _shown(path)


def _sizes(arena: Arena, data: st.DataObject, path: Path) -> Outcome:
    """A picture that says it is huge."""
    write_images(path, 12)
    content = (path / "0.png").read_bytes()
    header = b"IHDR" + struct.pack(">II", data.draw(SIDES), data.draw(SIDES)) + content[24:29]
    check = struct.pack(">I", zlib.crc32(header))
    (path / "0.png").write_bytes(content[:12] + header + check + content[33:])
    return _shown(path)


BODIES: dict[str, Body] = {
    "TOML": _toml,
    "CSV": _csv,
    "names": _names,
    "image headers": _headers,
    "image sizes": _sizes,
}
"""What is damaged, and how."""

"""The README's part about own data, typed as it is printed, on photographs with a shortcut.

python -m benchmarks.own_commands FOLDER_OF_ALL_DATA --out runs/own_commands

Photographs of BAR, in two classes of three actions each, stand in for the X-rays, so that every
file and column has the README's name. A color of two values matches the class in 1,800 of the 1,890
training images and says nothing in the test split. ``other`` has the same test images in their own
colors. Each command gets a shell of its own; the second training is stopped with Ctrl-C once,
because the README says how to go on.
"""

import argparse
import csv
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torchvision.transforms.v2.functional import pil_to_tensor

from benchmarks.measure import keep
from crossbias.data.planting.planted_cues import plant_values
from crossbias.seeds import generator_for

README = Path(__file__).parents[1] / "README.md"
PART = "## Five minutes to your own data"
CLASSES = {
    "on the ground": ("climbing", "pole vaulting", "throwing"),
    "elsewhere": ("diving", "fishing", "racing"),
}
SIZES = {"train": 945, "validation": 98, "test": 200}  # images of each class
CONFLICTING = {"train": 45, "validation": 5, "test": 100}
STOPPED = "--method end"  # the command that gets a Ctrl-C
SECONDS = 60.0  # until then
LINES = 60  # of what a command says, that are kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="folder with bar/")
    parser.add_argument("--out", type=Path, default=Path("runs/own_commands"))
    options = parser.parse_args()
    part = README.read_text().partition(PART)[2].partition("\n### ")[0]
    options.out.mkdir(parents=True)
    write(options.out, options.root)
    (config,) = re.findall(r"Name both in a file `x-rays.toml`:\n\n```toml\n(.*?)```", part, re.S)
    (options.out / "x-rays.toml").write_text(config)
    found = []
    for command in commands(part):
        found.append(typed(command, options.out))
        print(found[-1], flush=True)
    counts = {"of each class": SIZES, "of these conflicting": CONFLICTING}
    keep("own_commands", {"images": counts, "commands": found}, "cpu")


def commands(part: str) -> list[str]:
    """The commands in the README's order, without comments; the one that resumes when it is due."""
    blocks = re.findall(r"```sh\n(.*?)```", part, re.S)
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(crossbias [a-z]+ [^`]*)`", part)
    found = [line for line in lines if line.startswith("crossbias ")]
    (resume,) = (line for line in found if "--resume" in line)
    found.remove(resume)
    (stopped,) = (place for place, line in enumerate(found) if STOPPED in line)
    return [*found[: stopped + 1], resume, *found[stopped + 1 :]]


def write(out: Path, root: Path) -> None:
    """``x-rays`` with its table, and ``other`` with a folder for each class."""
    rows: list[tuple[str, str, str, str]] = []
    for number, (name, actions) in enumerate(CLASSES.items()):
        files = [f for f in sorted((root / "bar").glob("*/*.jpg")) if f.stem.startswith(actions)]
        order = torch.randperm(len(files), generator=generator_for(0, "own commands", name))
        start = 0
        for split, size in SIZES.items():
            for place, row in enumerate(order[start : start + size].tolist()):
                value = 1 - number if place < CONFLICTING[split] else number
                image = f"images/{number}{start + place:04d}.jpg"
                save_colored(files[row], value, out / "x-rays" / image)
                rows.append((image, name, ("north", "south")[value], split))
                if split == "test":
                    copied = out / "other" / name / files[row].name
                    copied.parent.mkdir(parents=True, exist_ok=True)
                    copied.write_bytes(files[row].read_bytes())
            start += size
    with open(out / "x-rays" / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([("file", "disease", "hospital", "split"), *rows])


def save_colored(file: Path, value: int, out: Path) -> None:
    """A photograph of its own size in the color of a value."""
    out.parent.mkdir(parents=True, exist_ok=True)
    pixels = pil_to_tensor(Image.open(file).convert("RGB"))[None]
    colored = plant_values(pixels, torch.tensor([value]), bias="color", num_values=2)
    Image.fromarray(colored[0].permute(1, 2, 0).numpy()).save(out, quality=90)


def typed(command: str, folder: Path) -> dict[str, Any]:
    """Run a command: its times, exit code, what it said, and how busy the machine was."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    start, worked, load = time.perf_counter(), processor_seconds(), os.getloadavg()[0]
    with subprocess.Popen(
        shlex.split(command), cwd=folder, env=os.environ | {"PATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=SECONDS if STOPPED in command else None)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate()
    seconds = round(time.perf_counter() - start, 1)
    return {
        "command": command,
        "seconds": seconds,
        "processor seconds": round(processor_seconds() - worked, 1),
        "exit code": process.returncode,
        "said": said.replace(str(Path.home()), "~").splitlines()[-LINES:],
        "load before": round(load, 1),
    }


def processor_seconds() -> float:
    """Of all commands that have ended, over all cores; other work hardly changes it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

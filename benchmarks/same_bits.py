"""Whether two revisions of crossbias train the same weights from the same recipes, bit for bit.

python -m benchmarks.same_bits REVISION [RUN ...]

Trains ten short runs with the files of another git revision and with those of this folder, on the
CPU, and compares the models.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TRAIN = {"device": '"cpu"', "precision": '"float32"', "steps": "12", "workers": "0"}
GLYPHS = {"name": '"glyphs"', "size": "600", "test_size": "200", "rho": "0.9"}
SMALL = {"name": '"small-convnet"'}
PAPER = {"class_balanced": "false", "uniform": "0.0"}  # left out where a revision lacks them
RUNS: dict[str, dict[str, dict[str, str]]] = {
    "erm": {"method": {"name": '"erm"'}},
    "erm-sgd": {"method": {"name": '"erm"'}, "train": {"optimizer": '"sgd"', "lr": "0.02"}},
    "end": {"method": {"name": '"end"', "alpha": "1.0", "beta": "1.0"}},
    "rebias": {"method": {"name": '"rebias"'}, "network": {"name": '"convnet"', "kernel": "3"}},
    "pgd": {"method": {"name": '"pgd"', "biased_epochs": "1", **PAPER}},
    "pgd-vmf": {"method": {"name": '"pgd"', "score": '"vmf"', "biased_epochs": "1", **PAPER}},
    "lnl-labels": {"method": {"name": '"lnl"', "biased_epochs": "1"}},
    "lnl-color": {
        "method": {"name": '"lnl"', "target": '"color"', "biased_epochs": "1"},
        "network": {"name": '"lnl-convnet"'},
    },
    "ie": {"method": {"name": '"ie"', "members": "2", "ensemble_length": "4", "uniform": "0.0"}},
    "denoised": {
        "method": {"name": '"denoised"', "noise_epochs": "1", "inner.name": '"pgd"'}
        | {f"inner.{name}": value for name, value in PAPER.items()}
    },
}
"""Ten short runs on the embedded data set; values as TOML writes them."""


def main() -> None:
    revision, *wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        command = ["git", "worktree", "add", "--quiet", "--detach", str(other), revision]
        subprocess.run(command, cwd=ROOT, check=True)
        try:
            differ = [name for name in wanted or RUNS if not _is_same(name, other, Path(folder))]
        finally:
            command = ["git", "worktree", "remove", "--force", str(other)]
            subprocess.run(command, cwd=ROOT, check=True)
    print(f"{len(wanted or RUNS) - len(differ)} of {len(wanted or RUNS)} give the same bits")
    sys.exit(1 if differ else 0)


def _is_same(name: str, other: Path, folder: Path) -> bool:
    config = folder / f"{name}.toml"
    config.write_text(_toml(RUNS[name]))
    models = [_model(tree, config, folder / f"{name}-{n}") for n, tree in enumerate((other, ROOT))]
    same = models[0] == models[1]
    print(
        f"{name:12} {'same' if same else 'DIFFERENT'}  {models[0][:12]} {models[1][:12]}",
        flush=True,
    )
    return same


def _model(tree: Path, config: Path, out: Path) -> str:
    """SHA-256 of the model that a source tree trains."""
    program = (
        f"import sys; sys.path.insert(0, {str(tree / 'src')!r}); "
        f"from crossbias.cli import main; main()"
    )
    if "small-convnet" not in (tree / "src/crossbias/networks/recipe.py").read_text():
        text = config.read_text().replace("small-convnet", "simple-convnet-1")
        config = config.with_name("padded.toml")  # as the padded network was called then
        config.write_text(text)
    if "uniform" not in (tree / "src/crossbias/methods/pgd.py").read_text():
        lines = [
            line
            for line in config.read_text().splitlines()
            if line.split(" ")[0].removeprefix("inner.") not in PAPER
        ]
        config = config.with_name("older.toml")
        config.write_text("\n".join(lines))
    arguments = ["train", "--config", str(config), "--out", str(out), "--quiet"]
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True)
    return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()


def _toml(tables: dict[str, dict[str, Any]]) -> str:
    whole = {
        "method": tables["method"],
        "data": GLYPHS,
        "network": tables.get("network", SMALL),
        "train": TRAIN | tables.get("train", {}),
    }
    parts = []
    for name, values in whole.items():
        parts += [f"[{name}]", *(f"{key} = {value}" for key, value in values.items()), ""]
    return "\n".join(parts)


if __name__ == "__main__":
    main()

"""Run folders as training leaves them, made up: accuracies are chosen, files are real."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crossbias.report import report as write_report
from crossbias.runs.files import write_json
from crossbias.runs.folder import RunFolder, as_line
from crossbias.runs.stored import TrainingLabels, Views, save_labels, save_predictions, save_views
from crossbias.types import UNKNOWN
from crossbias.verify import Predictions

SHAPES = ("circle", "square", "star")
COLORS = ("red", "green", "blue")


@dataclass(frozen=True, kw_only=True)
class FakeRun:
    """What a made-up run is like. Its accuracies are exact, as far as ``each`` allows."""

    method: str = "erm"
    paper: str | None = None
    supervision: str = "none"
    selection: str = "last"
    seed: int = 0
    parameters: tuple[tuple[str, Any], ...] = ()
    aligned: float = 0.98
    conflicting: float = 0.2
    data: str = "glyphs"
    classes: tuple[str, ...] = SHAPES
    biases: tuple[str, ...] = COLORS
    bias: str | None = "background"
    each: int = 30  # samples of each group
    labeled: bool = True
    only_conflicting: bool = False
    associated: bool = True  # whether training associates a bias value with each class
    target: str | None = None  # the name of what is predicted
    side: int = 8  # of the pictures; 0 for none
    epochs: int = 4
    stages: tuple[str, ...] = ("final",)
    hash: str = "c0ffee"
    done: bool = True
    views: bool = False  # maps, features, labels and scores, as runs keep them
    single: bool = False  # test splits of a single bias value
    attribute: str | None = None  # reported besides the bias
    in_cluster: int = 0  # samples of each cluster; 0 for none

    def write(self, folder: Path) -> Path:
        """Write the run folder."""
        folder.mkdir(parents=True)
        splits = {"validation": self._predictions(1), "test": self._predictions(2)}
        splits |= self._single(splits["test"]) if self.single else {}
        save_predictions(folder / "predictions.npz", splits)
        metrics = {split: self._metrics(found) for split, found in splits.items()}
        if self.attribute is not None:
            metrics["test"]["attributes"] = {self.attribute: dict(metrics["test"])}
        write_json(folder / "metrics.json", metrics)
        if self.views:
            self._keep_views(folder, splits["test"])
        write_json(folder / "config.json", self._config(folder))
        (folder / "log.jsonl").write_text("".join(map(as_line, self._log())))
        if self.done:
            RunFolder(folder).finish()
        return folder

    def _predictions(self, purpose: int) -> Predictions:
        """Groups of equal size; aligned and conflicting right as often as asked, else the bias."""
        draw = np.random.default_rng([purpose, self.seed])
        target = np.repeat(np.arange(len(self.classes)), len(self.biases) * self.each)
        bias = np.tile(np.repeat(np.arange(len(self.biases)), self.each), len(self.classes))
        ranks = [draw.permutation(self.each) for _ in range(len(target) // self.each)]
        rate = np.where(target == bias, self.aligned, self.conflicting)
        right = np.concatenate(ranks) < np.round(rate * self.each)
        wrong = np.where(bias == target, target + 1, bias) % len(self.classes)
        answers = torch.from_numpy(np.where(right, target, wrong))
        probabilities = torch.full((len(target), len(self.classes)), 0.3 / len(self.classes))
        probabilities[torch.arange(len(target)), answers] += 0.7
        attributes = {"size": np.zeros_like(target)}
        if self.bias is not None:
            attributes[self.bias] = bias if self.labeled else np.full_like(bias, UNKNOWN)
        if self.attribute is not None:
            attributes[self.attribute] = bias
        found = Predictions(
            index=torch.arange(len(target)),
            target=torch.from_numpy(target),
            probabilities=probabilities,
            attributes={name: torch.from_numpy(column) for name, column in attributes.items()},
            cluster=torch.arange(len(target)) // self.in_cluster if self.in_cluster else None,
        )
        if self.only_conflicting:
            keep = torch.from_numpy(target != bias)
            columns = {name: column[keep] for name, column in found.attributes.items()}
            parts = {
                name: getattr(found, name)[keep] for name in ("index", "target", "probabilities")
            }
            return Predictions(attributes=columns, **parts)
        if not self.side:
            return found
        rows = torch.arange(0, len(target), max(1, self.each // 2))
        return replace(found, pictures=self._pictures(target[rows], bias[rows]), picture_rows=rows)

    def _single(self, test: Predictions) -> dict[str, Predictions]:
        """The test split, a bias value at a time."""
        splits = {}
        for number in range(len(self.biases)):
            keep = test.attributes[self.bias] == number
            parts = {part: getattr(test, part)[keep] for part in ("index", "target")}
            columns = {key: column[keep] for key, column in test.attributes.items()}
            parts["probabilities"] = test.probabilities[keep]
            splits[f"test-color-{number}"] = Predictions(attributes=columns, **parts)
        return splits

    def _keep_views(self, folder: Path, test: Predictions) -> None:
        """Features are class and bias value; every map looks at the upper left corner."""
        rows = torch.arange(0, len(test.target), 3)
        columns = torch.stack([test.target, test.attributes[self.bias]], 1)[rows]
        maps = torch.zeros(len(test.picture_rows), 4, 4).half()
        maps[:, 0, 0] = 1
        save_views(
            folder / "views.npz", {"test": Views(rows=rows, features=columns.half(), maps=maps)}
        )
        rows = torch.arange(len(test.target))
        labels = TrainingLabels(index=rows, target=test.target, attributes=test.attributes)
        save_labels(folder / "labels.npz", labels)
        (folder / "stages").mkdir()
        conflicting = test.target != test.attributes[self.bias]
        torch.save(torch.where(conflicting, 3.0, 1.0), folder / "stages" / "scores.pt")

    def _pictures(self, target: np.ndarray, bias: np.ndarray) -> torch.Tensor:
        """A light bar at the class's height on a ground of the bias value's color."""
        palette = np.random.default_rng(0).integers(40, 200, (len(self.biases), 3))
        pictures = np.repeat(palette[bias][:, :, None, None], self.side, 2).repeat(self.side, 3)
        for picture, row in zip(pictures, target, strict=True):
            top = row * self.side // len(self.classes)
            picture[:, top : top + max(1, self.side // 6), self.side // 5 : -self.side // 5] = 245
        return torch.from_numpy(pictures.astype(np.uint8))

    def _metrics(self, predictions: Predictions) -> dict[str, Any]:
        size = (len(self.classes), len(self.biases) if self.bias else 0)
        values = self.biases if self.bias else ()
        table = torch.eye(*size, dtype=torch.bool) & self.associated
        names = {"classes": self.classes, "values": values}
        return predictions.metrics(bias=self.bias, alignment=table, **names).to_json()

    def _config(self, folder: Path) -> dict[str, Any]:
        hashes = {"train": "a1b2", "validation": "d4e5", "test": self.hash}
        return {
            "version": "0.1.0",
            "command": f"crossbias train --data {self.data} --method {self.method} --out {folder}",
            "commit": None,
            "method": {"name": self.method, **dict(self.parameters)},
            "paper": self.paper,
            "supervision": self.supervision,
            "selection": self.selection,
            "data": {"name": self.data, "seed": 0, "bias": self.bias, "hashes": hashes}
            | ({"target": self.target} if self.target else {})
            | self._training_facts(),
            "network": {"name": "simple-convnet-1"},
            "train": {"epochs": self.epochs, "batch_size": 256, "seed": self.seed},
            "environment": {"python": "3.11.7", "torch": "2.15.0", "device": "cpu"},
            "page": {
                "figures": {"sampling": ["scores"]} if self.views else {},
                "curves": {"regularizer": ["penalty", "entropy"]},
            },
        }

    def _training_facts(self) -> dict[str, Any]:
        """Which values of the bias go along with each class, as ``config.json`` has it."""
        side = self.side or 8
        facts = {
            "shape": [3, side, side],
            "classes": self.classes,
            "pixels": {"crop": 0, "mean": [0.5] * 3, "std": [0.5] * 3},
        }
        if self.bias is None:
            return facts | {"values": {}, "aligned": {}}
        partners = [
            [self.biases[at]] if self.associated and at < len(self.biases) else []
            for at in range(len(self.classes))
        ]
        return facts | {"values": {self.bias: self.biases}, "aligned": {self.bias: partners}}

    def _log(self) -> list[dict[str, Any]]:
        lines = []
        for stage in self.stages:
            for epoch in range(1, self.epochs + 1):
                task = 1.4 * 0.7**epoch + 0.02 * (epoch % 2)
                scores = {"accuracy": 1 - 0.5 * 0.7**epoch, "worst_group": 1 - 0.8 * 0.9**epoch}
                lines.append({
                    "stage": stage, "epoch": epoch, "step": 79 * epoch, "seconds": 1.25,
                    "samples_per_second": 5000.0, "lr": 0.001,
                    "losses": {"loss": task + 0.1, "task": task, "regularizer": 0.1 / epoch},
                    "validation": scores if stage == "final" else None,
                })  # fmt: skip
        return lines


@pytest.fixture(scope="session")
def fake_run() -> type[FakeRun]:
    """Made-up runs, for fixtures that live longer than a test."""
    return FakeRun


@pytest.fixture(autouse=True)
def resealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever changes a file in these tests also writes its hash: the content must tell."""
    monkeypatch.setattr(RunFolder, "check", lambda folder, *paths: None)


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run folder under the test's own; its name comes first."""

    def write(name: str, **changes: Any) -> Path:
        return FakeRun(**changes).write(tmp_path / "runs" / name)

    return write


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., str]:
    """The page of some run folders, as text."""

    def make(*folders: Path, **options: Any) -> str:
        write_report(folders, tmp_path / "report.html", **options)
        return (tmp_path / "report.html").read_text(encoding="utf-8")

    return make


class Element:
    """One element of a page, with the text of everything inside it."""

    def __init__(self, tag: str, attributes: dict[str, str], inside: tuple[str, ...]) -> None:
        self.tag, self.attributes, self.inside, self.text = tag, attributes, inside, ""
        self.children: list[Element] = []

    def find(self, tag: str) -> "list[Element]":
        """The elements of one kind inside this one, in order."""
        found = [self] if self.tag == tag else []
        return found + [each for child in self.children for each in child.find(tag)]

    def every(self) -> "list[Element]":
        """This element and all elements inside it, in order."""
        return [self, *(each for child in self.children for each in child.every())]


class _Parser(HTMLParser):
    """Builds the elements of a page, and refuses one whose tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {}, ())
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        inside = tuple(element.tag for element in self.open)
        element = Element(tag, {name: value or "" for name, value in attrs}, inside)
        self.open[-1].children.append(element)
        if tag not in ("meta", "img"):
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data


@pytest.fixture
def parse() -> Callable[[str], Element]:
    """Turn a page into its elements."""

    def parse_page(page: str) -> Element:
        parser = _Parser()
        parser.feed(page)
        parser.close()
        assert parser.open == [parser.root], "an element is never closed"
        return parser.root

    return parse_page

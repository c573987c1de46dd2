"""Result: a trained network, and how good it is."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.networks.network import Network
from crossbias.runs.config_file import write_config
from crossbias.runs.files import write_json
from crossbias.runs.folder import RunFolder
from crossbias.runs.health import Symptom
from crossbias.runs.stored import TrainingLabels, save_labels, save_predictions, save_views
from crossbias.tracking import Trackers
from crossbias.train.environment import same_threads
from crossbias.train.evaluation import metrics_of, predict
from crossbias.train.explanations import views_of
from crossbias.train.interrupts import stops_at_once
from crossbias.train.outcome import (
    following_symptoms,
    learning_symptoms,
    unlearning_symptoms,
)
from crossbias.train.record import as_in_training, normalization_of
from crossbias.verify import Metrics, Predictions, judged_split
from crossbias.verify.cells import Alignment


@dataclass(repr=False)
class Result:
    """A finished training.

    Args:
        network: The trained network, in evaluation mode, on the device it was trained on.
        metrics: Metrics by split; ``fit`` fills in ``validation``, ``evaluate`` the rest.
        writing: The run folder, if there is one; of several processes only one writes it.
        config: What the run folder's ``config.json`` holds.
        alignments: For every attribute, which of its values went along with which class in the
            training data.
        health: What went wrong in the training, and what to change.
        trackers: Where the run is logged to.
    """

    network: Network
    metrics: dict[str, Metrics]
    writing: RunFolder | None
    config: dict[str, Any]
    alignments: Mapping[str, Alignment]
    health: tuple[Symptom, ...] = ()
    trackers: Trackers = field(default_factory=Trackers)
    _predictions: dict[str, Predictions] = field(default_factory=dict)

    def __repr__(self) -> str:
        method, data = (self.config[table]["name"] for table in ("method", "data"))
        return f"<{method} on {data}: {self.metrics}>"

    def __post_init__(self) -> None:
        self.network.normalization = normalization_of(self.config["data"])

    @property
    def folder(self) -> Path | None:
        """The run folder, if there is one."""
        return None if self.writing is None else self.writing.path

    @property
    def alignment(self) -> Tensor:
        """Which (target, bias) groups were aligned in the training data; no column without bias."""
        bias = self.config["data"]["bias"]
        if bias is not None:
            return self.alignments[bias].aligned
        return torch.zeros(self.network.num_classes, 0, dtype=torch.bool)

    def evaluate(self, *splits: BiasedDataset) -> dict[str, Metrics]:
        """Judge the network on data it was not trained on; the run folder keeps the answers.

        Classes and values of attributes are matched by name with those of the training, and images
        are normalized as in the training.

        Returns:
            The metrics of these splits, by name.
        """
        splits = tuple(as_in_training(data, self.config["data"]) for data in splits)
        for data in splits:
            table = self.alignments.get(data.bias or "")
            answers = predict(self.network, data, pictures=True, alignment=table)
            self._predictions[data.split] = answers
            self.metrics[data.split] = metrics_of(answers, data, tables=self.alignments)
            self.config["data"]["hashes"][data.split] = data.hash
            self.trackers.results(data.split, self.metrics[data.split])
        if self.writing is not None:
            self._keep(self.writing, splits)
        return {data.split: self.metrics[data.split] for data in splits}

    def outcome(self, data: BiasedDataset, plain: Network | None = None) -> list[Symptom]:
        """What is wrong with the answers to a split that was judged, and what to change.

        Plain training is expected to follow the bias, so of it this is not said.

        Args:
            data: The split.
            plain: A plainly trained network that the method began with.
        """
        metrics, answers = self.metrics[data.split], self._predictions[data.split]
        found = list(learning_symptoms(metrics))
        bias, method = self.config["data"]["bias"], self.config["method"]["name"]
        if bias in answers.attributes and method != "erm":
            table = self.alignments[bias]
            values = Alignment(metrics.biases, table.of(metrics.biases))
            found += following_symptoms(answers, bias, values, method=method)
            if plain is not None:
                before = predict(plain, as_in_training(data, self.config["data"]))
                found += unlearning_symptoms(answers, before, bias, values)
        return found

    def _keep(self, folder: RunFolder, splits: Sequence[BiasedDataset]) -> None:
        """Write the answers; a run that was finished is so again when its files are written."""
        finished = folder.writer is None
        if finished:
            folder.acquire()
            folder.done.unlink(missing_ok=True)
        folder.check_writer()
        self._keep_views(folder, splits)
        save_predictions(folder.predictions, self._predictions)
        write_json(folder.metrics, {name: m.to_json() for name, m in self.metrics.items()})
        write_config(folder.config, self.config)
        if finished:
            folder.finish()

    def _keep_views(self, folder: RunFolder, splits: Sequence[BiasedDataset]) -> None:
        """Look into the network on the split it is judged by, while it and the data are here."""
        judged = [data for data in splits if data.split == judged_split(self.metrics)]
        for data in judged:
            views = views_of(self.network, data, self._predictions[data.split])
            save_views(folder.views, {data.split: views})

    def _repr_html_(self) -> str:
        """The metrics of every split, for a notebook."""
        parts = (f"<h4>{escape(name)}</h4>{m._repr_html_()}" for name, m in self.metrics.items())
        return "".join(parts) or f"<pre>{escape(repr(self.network))}</pre>"

    def finish(self) -> None:
        """Mark the run folder as finished. ``evaluate`` can still add its answers afterwards."""
        self.trackers.end()
        if self.writing is not None:
            self.writing.finish()

    def keep_model(self, train: BiasedDataset) -> None:
        """Write the trained weights, and what is known about the training samples."""
        if self.writing is None:
            return
        self.writing.save_model(self.network.state_dict())
        labels = TrainingLabels(
            index=train.index,
            target=train.targets,
            attributes=train.attributes,
            cluster=train.cluster,
        )
        save_labels(self.writing.labels, labels)

    @contextmanager
    def stoppable(self, noted: str | None = None) -> Iterator[None]:
        """Inside this, a stop ends the judging of a trained network, and says how to continue.

        ``noted`` names a signal that asked for it before.
        """
        folder, threads = self.writing, same_threads(self.config["environment"])
        if folder is None:
            stop = stops_at_once("nothing is saved, since the run has no folder", noted)
            with self.trackers.ended_on_error(), stop, threads:
                yield
            return
        remedy = f"the training is saved; continue with: {folder.resume_command()}"
        stop = stops_at_once(remedy, noted)
        with folder.released_on_error(), self.trackers.ended_on_error(), stop, threads:
            yield

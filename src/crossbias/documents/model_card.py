"""card_of: a model card of a finished run, as Hugging Face's YAML header and Markdown.

Every number is read from the run folder. What a run cannot know, such as what a model is for, is
left to the person who publishes it, and the card says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from crossbias.documents.card_header import accuracies_of, header_of
from crossbias.formatting import DASH, count, markdown, percent_with_range, setting, settings
from crossbias.report.markdown_report import table
from crossbias.report.summary import selection, supervision
from crossbias.report.training_data import data_title
from crossbias.runs.health import in_words
from crossbias.runs.read import FinishedRun
from crossbias.types import UNKNOWN
from crossbias.verify import Estimate, Group, Metrics

MOST_GROUPS: Final = 60  # rows of the table of groups; those of lowest accuracy are kept

_MACHINE: Final = ("device", "processes", "workers", "resident_bytes", "cuda_graphs", "compile")
"""Settings of a training that only say where and how fast it runs."""

_LOAD = """\
```python
import crossbias

run = crossbias.load_run("FOLDER")  # with config.json, model.safetensors and done
answers = run.predict({given}
answers.classes, answers.probabilities
```"""


def card_of(run: FinishedRun) -> str:
    """The model card of a finished run."""
    title = f"{run.title} on {data_title(run.config['data']['name'])}"
    parts = [
        f"---\n{header_of(run, title).rstrip()}\n---",
        f"# {markdown(title)}",
        *_lead(run),
        *("## Model", _model(run)),
        *("## How to load it", _LOAD.format(given=_example(run)), *_code_note(run)),
        *("## Intended use", *_intended_use(run)),
        *("## Training data", *_training_data(run)),
        *("## What the training knew, and how the model was chosen", *_knowledge(run)),
        *("## Evaluation", *_evaluation(run)),
        *("## Limits", _listed(_limits(run))),
    ]
    return "\n\n".join(parts) + "\n"


def _lead(run: FinishedRun) -> list[str]:
    classes = run.config["data"]["classes"]
    metrics = run.test
    worst = metrics.worst_group
    sentence = (
        f"This classifier tells {len(classes)} classes apart ({_names(classes)}). On the "
        f"{count(metrics.overall.n)} samples of the split {run.split!r} it is right on "
        f"{_with_interval(metrics.overall)}"
    )
    if worst is not None and worst.accuracy.n:
        sentence += (
            f", and on {_with_interval(worst.accuracy)} of its worst group, {worst.target} with "
            f"{run.bias} {worst.bias} ({metrics.worst_of}, {count(worst.accuracy.n)} samples)"
        )
    about = metrics.worst_note
    return [
        markdown(f"{sentence}. Brackets hold 95% intervals.{f' {about}.' if about else ''}"),
        f"crossbias wrote this card from the files of the training run. {_independence(run)}",
    ]


def _independence(run: FinishedRun) -> str:
    """Whether the training could see the samples on which the model is judged."""
    for split in ("train", "validation"):
        if run.hash_of(split) is not None and run.hash_of(split) == run.hash_of(run.split):
            return (
                f"**The split on which the model is judged is the {split} split itself. The "
                f"numbers say nothing about other samples.**"
            )
    return "Neither the training nor the choice of the model used the split on which it is judged."


def _model(run: FinishedRun) -> str:
    config, data = run.config, run.config["data"]
    network = dict(config["network"])
    name = network.pop("name") or f"{network.get('body')}, made in Python"
    pixels = data["pixels"]
    normalized = f"mean {setting(pixels['mean'])}, deviation {setting(pixels['std'])}"
    rows = [
        ["Method", f"{run.title}, in crossbias {run.method}"],
        ["Settings of the method", settings(config["method"]) or "none"],
        ["Network", f"{name} ({settings(network)})" if network else name],
        ["Input", " x ".join(map(str, data["shape"]))],
        *([["Normalization of pixels from 0 to 1", normalized]] if data["shape"][1:] else []),
        ["Classes, in the order of the outputs", _names(data["classes"])],
        ["Training", settings(_telling(config["train"]))],
        ["Versions", settings(config["environment"])],
        ["Commit of crossbias", config["commit"] or "unknown"],
    ]
    return table(["Property", "Value"], rows)


def _telling(train: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a training that decide the model."""
    return {
        name: value
        for name, value in train.items()
        if name not in _MACHINE and value is not None and value != []
    }


def _example(run: FinishedRun) -> str:
    """What to pass to ``predict``, and a comment about it."""
    shape = run.config["data"]["shape"]
    if len(shape) == 3:
        return '["image.png"])  # resized and normalized as in training'
    return f"inputs)  # a tensor of shape (n, {', '.join(map(str, shape))})"


def _code_note(run: FinishedRun) -> list[str]:
    if run.config["network"]["name"] is None:
        return [
            "The network was made in Python. Pass it as well: "
            '`crossbias.load_run("FOLDER", network=model)`.'
        ]
    return []


def _intended_use(run: FinishedRun) -> list[str]:
    data = markdown(data_title(run.config["data"]["name"]))
    return [
        f"The model was measured on one task: the classes above, on samples like those of {data}. "
        f"The run does not record what it is for. **Whoever publishes or uses it should state here "
        f"the purpose, the people concerned, and who decides on its answers.**",
        _listed(
            [
                "Nothing here shows how good it is on data of another source, on other classes, "
                "or in groups without samples.",
                "It is not shown to be safe or lawful for decisions about people. The numbers do "
                "not replace a review by those who are responsible for such a use.",
            ]
        ),
    ]


def _training_data(run: FinishedRun) -> list[str]:
    data = run.config["data"]
    hashes = [[split, digest] for split, digest in data["hashes"].items()]
    named = run.bias or "no attribute was named"
    parts = [
        table(
            ["Property", "Value"],
            [
                ["Data", data_title(data["name"])],
                ["Bias in question", named],
                ["Attributes", _names(data["values"]) or "none"],
            ],
        ),
        "SHA-256 of each split, over its inputs, classes and attributes:",
        table(["Split", "SHA-256"], hashes),
    ]
    counts = _training_counts(run)
    if counts is not None and run.bias is not None:
        values = data["values"][run.bias]
        heads = [f"Class / {run.bias}", *values, "unknown"]
        rows = [
            [name, *map(count, row)]
            for name, row in zip(data["classes"], counts.tolist(), strict=True)
        ]
        parts += ["Training samples in each group:", table(heads, rows)]
    return parts


def _training_counts(run: FinishedRun) -> Tensor | None:
    """Training samples by class and bias value, those of unknown value last; None if not kept."""
    if run.labels is None or run.bias is None:
        return None
    values = len(run.config["data"]["values"][run.bias])
    if values > MOST_GROUPS:
        return None
    bias = run.labels.bias(run.bias)
    place = torch.where(bias == UNKNOWN, values, bias)
    classes = len(run.config["data"]["classes"])
    code = run.labels.target * (values + 1) + place
    return torch.bincount(code, minlength=classes * (values + 1)).view(classes, values + 1)


def _knowledge(run: FinishedRun) -> list[str]:
    return [
        f"- Supervision: the method {markdown(supervision(run.config['supervision']))}.\n"
        f"- Selection: {markdown(selection(run.config['selection']))}"
    ]


def _evaluation(run: FinishedRun) -> list[str]:
    metrics = run.test
    numbers = [
        *([name, *_cells(number)] for name, number in accuracies_of(run).items()),
        *_reliability(metrics),
    ]
    heads = [f"On the split {run.split!r}", "% [95% interval]", "Samples"]
    parts = [table(heads, numbers)]
    if metrics.worst_group is not None:
        parts.append(
            "The interval of the worst group is about the lowest true accuracy of any group, so it "
            "is wider than that of one group below."
        )
    parts += _groups(metrics, run.bias)
    for name, other in metrics.attributes.items():
        parts += [f"### By {markdown(name)}", *_groups(other, name)]
    return parts


def _reliability(metrics: Metrics) -> list[list[str]]:
    named = {
        "Calibration error": metrics.calibration,
        "Demographic-parity gap": metrics.demographic_parity,
        "Equalized-odds gap": metrics.equalized_odds,
    }
    return [[name, *_cells(number)] for name, number in named.items() if number is not None]


def _groups(metrics: Metrics, bias: str | None) -> list[str]:
    """The accuracy in every group that has samples."""
    present = [group for group in metrics.groups if group.accuracy.n]
    if not present or bias is None:
        return []
    shown = present
    more = ""
    if len(present) > MOST_GROUPS:
        shown = sorted(present, key=lambda group: group.accuracy.value)[:MOST_GROUPS]
        more = f" These are the {MOST_GROUPS} lowest of {count(len(present))} groups."
    rows = [
        [group.target, group.bias, _kind(metrics, group), *_cells(group.accuracy)]
        for group in shown
    ]
    heads = ["Class", bias, "In training", "Accuracy in % [95% interval]", "Samples"]
    return [f"Accuracy in each group.{more}", table(heads, rows)]


def _kind(metrics: Metrics, group: Group) -> str:
    """Whether a group is aligned in the training data, where that is known."""
    aligned = dict(zip(metrics.classes, metrics.aligned_groups, strict=False))
    if not aligned:
        return DASH
    return "aligned" if group.bias in aligned[group.target] else "conflicting"


def _limits(run: FinishedRun) -> list[str]:
    metrics = run.test
    found = [
        "The intervals are over test samples. They are about this trained model; a training with "
        "another seed gives another model.",
        "Groups are those of the attributes above. Other shortcuts and other groups were not "
        "measured.",
    ]
    if run.bias is None:
        found.append("No bias was named, so no group accuracies are known.")
    named = {run.bias or "": metrics, **metrics.attributes}
    found += [f"{name}: {each.warning}." for name, each in named.items() if each.warning]
    found += [f"{metrics.cluster_note}."] if metrics.cluster_note else []
    found += [f"The training had a problem: {text}" for text in in_words([run.health])]
    found.append("The license of the model and of its data is not recorded. State it above.")
    return [markdown(text) for text in found]


def _cells(number: Estimate) -> tuple[str, str]:
    if not number.n:
        return DASH, "0"
    return percent_with_range(number.value, number.low, number.high), count(number.n)


def _with_interval(number: Estimate) -> str:
    return percent_with_range(number.value, number.low, number.high, after_value="%")


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)

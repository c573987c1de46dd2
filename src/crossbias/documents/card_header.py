"""The head of a model card: what a hub reads, as YAML."""

from collections.abc import Iterator
from typing import Any, Final

from crossbias.report.training_data import data_title
from crossbias.runs.read import FinishedRun
from crossbias.verify import Estimate

TASKS: Final = {
    1: "tabular-classification",
    3: "image-classification",
    4: "video-classification",
}
"""What a hub calls a classifier of vectors, images and clips, by the dimensions of an input."""


def accuracies_of(run: FinishedRun) -> dict[str, Estimate]:
    """The accuracies of a run that exist on the split it is judged on, by their names."""
    metrics = run.test
    named = {
        "Accuracy": metrics.overall,
        "Accuracy on aligned samples": metrics.aligned,
        "Accuracy on conflicting samples": metrics.conflicting,
        "Mean accuracy over groups": metrics.unbiased,
        "Worst-group accuracy": metrics.worst_group and metrics.worst_group.accuracy,
        "Mean accuracy over classes": metrics.class_averaged,
    }
    return {name: number for name, number in named.items() if number is not None and number.n}


def header_of(run: FinishedRun, title: str) -> str:
    """The YAML between the two lines of dashes, with the accuracies as a model-index."""
    from huggingface_hub import ModelCardData

    found = ModelCardData(
        model_name=title,
        library_name="crossbias",
        pipeline_tag=TASKS[len(run.config["data"]["shape"])],
        tags=["bias", "debiasing", "group-robustness", run.method],
        metrics=["accuracy"],
        eval_results=list(_results(run)),
    )
    text: str = found.to_yaml()
    return text


def _results(run: FinishedRun) -> Iterator[Any]:
    from huggingface_hub import EvalResult

    data = data_title(run.config["data"]["name"])
    task = TASKS[len(run.config["data"]["shape"])]
    for name, number in accuracies_of(run).items():
        yield EvalResult(
            task_type=task,
            dataset_type=data,
            dataset_name=data,
            dataset_split=run.split,
            dataset_args={"sha256": run.hash_of(run.split) or "unknown"},
            metric_type="accuracy",
            metric_name=name,
            metric_value=number.value,
            metric_args={
                "confidence": 0.95, "low": number.low, "high": number.high, "samples": number.n,
            },
        )  # fmt: skip

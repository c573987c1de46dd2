"""The card says what the predictions say, in a header that a hub reads."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from crossbias.documents import card_of
from crossbias.runs import read_run
from crossbias.verify import wilson

from .conftest import CLASSES, HOSPITALS


@pytest.fixture(scope="module")
def finished(run):
    return read_run(run)


@pytest.fixture(scope="module")
def card(finished):
    return card_of(finished)


class Cells(HTMLParser):
    """The texts of all table cells, row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.inside = True
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def page(card):
    """The card as a hub renders it."""
    body = re.fullmatch(r"---\n.*?\n---\n(.*)", card, re.DOTALL).group(1)
    cells = Cells()
    cells.feed(MarkdownIt("commonmark").enable("table").render(body))
    return cells


def test_hugging_face_reads_the_header(card, finished):
    data = ModelCard(card).data
    assert (data.library_name, data.pipeline_tag) == ("crossbias", "image-classification")
    assert data.model_name == "Plain training (ERM) on x-rays"
    results = {each.metric_name: each for each in data.eval_results}
    answers = finished.predictions["test"]
    right = (answers.answers == answers.target).numpy()
    assert results["Accuracy"].metric_value == pytest.approx(right.mean())
    interval = wilson(int(right.sum()), len(right))
    assert results["Accuracy"].metric_args["low"] == pytest.approx(interval.low)
    assert results["Accuracy"].dataset_args == {"sha256": finished.hash_of("test")}
    hospital = answers.attributes["hospital"].numpy()
    accuracies = [
        right[(answers.target.numpy() == y) & (hospital == b)].mean()
        for y in (0, 1)
        for b in (0, 1)
    ]
    assert results["Worst-group accuracy"].metric_value == pytest.approx(min(accuracies))
    assert results["Mean accuracy over groups"].metric_value == pytest.approx(np.mean(accuracies))


def test_the_header_is_plain_yaml_with_a_model_index(card):
    head = yaml.safe_load(card.split("\n---\n")[0].removeprefix("---\n"))
    (model,) = head["model-index"]
    (result,) = model["results"]
    assert result["task"] == {"type": "image-classification"}
    assert result["dataset"]["split"] == "test"
    assert {metric["type"] for metric in result["metrics"]} == {"accuracy"}


def test_groups_have_the_accuracies_of_the_predictions(page, finished):
    answers = finished.predictions["test"]
    right, target = answers.answers == answers.target, answers.target
    rows = {tuple(row[:2]): row for row in page.rows if len(row) == 5}
    for y, class_name in enumerate(CLASSES):
        for b, value in enumerate(HOSPITALS):
            inside = (target == y) & (answers.attributes["hospital"] == b)
            wanted = wilson(int(right[inside].sum()), int(inside.sum()))
            shown = "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * part for part in wanted[:3]))
            kind = "aligned" if y == b else "conflicting"
            assert rows[class_name, value][2:] == [kind, shown, str(int(inside.sum()))]


def test_training_samples_are_counted_by_group(page, finished):
    labels = finished.labels
    for y, class_name in enumerate(CLASSES):
        row = next(r for r in page.rows if r[0] == class_name and len(r) == 4)
        inside = labels.target == y
        counts = [int((labels.attributes["hospital"][inside] == b).sum()) for b in (0, 1, -1)]
        assert row[1:] == list(map(str, counts))


def test_hashes_supervision_selection_and_limits_are_there(card, finished):
    for digest in finished.config["data"]["hashes"].values():
        assert digest in card
    assert "the method knew nothing about the bias" in card
    assert "The model after the last epoch" in card
    assert "have fewer than" in card  # the warning about small groups
    assert "State it above" in card


def test_names_and_folders_stay_what_they_are(card, page):
    assert "/home/somebody" not in card
    assert "i" not in page.tags
    assert "em" not in page.tags
    assert any(CLASSES[1] in cell for row in page.rows for cell in row)


def test_a_run_that_is_judged_on_its_training_data_says_so(finished, card):
    assert "Neither the training nor the choice of the model used the split" in card
    hashes = {**finished.config["data"]["hashes"], "test": finished.hash_of("train")}
    config = {**finished.config, "data": {**finished.config["data"], "hashes": hashes}}
    assert "is the train split itself" in card_of(replace(finished, config=config))


def test_vectors_are_not_called_images(finished):
    data = {**finished.config["data"], "shape": [5]}
    card = card_of(replace(finished, config={**finished.config, "data": data}))
    assert ModelCard(card).data.pipeline_tag == "tabular-classification"
    assert "run.predict(inputs)  # a tensor of shape (n, 5)" in card
    assert "pixels" not in card

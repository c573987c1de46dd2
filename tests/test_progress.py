"""What a person sees while it trains."""

import io

import pytest
from rich.console import Console

from crossbias.progress import BarProgress, LineProgress, Progress, shown_progress

RECORD = {
    "stage": "final",
    "epoch": 1,
    "losses": {"loss": 0.5, "task": 0.25},
    "validation": {"accuracy": 0.9, "conflicting": 0.125, "worst_group": 0.0},
    "samples_per_second": 1234.5,
}


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lines_of(told, watch: Watch) -> list[str]:
    """What is printed where there is no terminal."""
    out = io.StringIO()
    told(LineProgress(Console(file=out, width=200), watch))
    return out.getvalue().splitlines()


def test_a_header_notes_and_the_last_epoch_are_printed_at_once():
    def told(progress):
        progress.header(["data: faces", "network: resnet18"])
        progress.begin("final", 1, 10)
        progress.advance(0, 5, {"loss": 0.4}, 100.0)
        progress.end_epoch(RECORD)
        progress.note("computing scores")

    assert lines_of(told, Watch()) == [
        "data: faces",
        "network: resnet18",
        "final 1/1  1,234 samples/s  validation 90.0%, conflicting 12.5%  loss 0.5, task 0.25",
        "computing scores",
    ]


def test_a_run_that_is_refused_prints_no_header():
    assert lines_of(lambda progress: progress.header(["data: faces"]), Watch()) == []


def test_a_line_every_half_minute_and_not_for_every_epoch():
    watch = Watch()

    def told(progress):
        progress.begin("final", 100, 10)
        for epoch in range(100):  # 2 s each
            watch.now += 1
            progress.advance(epoch, 5, {"loss": 0.4}, 100.0)
            watch.now += 1
            progress.end_epoch(RECORD | {"epoch": epoch + 1, "validation": {"accuracy": 0.9}})

    lines = lines_of(told, watch)
    # The estimate after 5 s, then six lines in 194 s, and the last epoch.
    assert len(lines) == 8
    told = "100 samples/s  validation 90.0%  loss 0.4"
    assert lines[0] == f"final 4/100, step 5/10  {told}  about 3 minutes left"
    assert lines[-2] == f"final 94/100, step 5/10  {told}  less than 2 minutes left"
    assert lines[-1] == "final 100/100  1,234 samples/s  validation 90.0%  loss 0.5, task 0.25"


def test_the_line_of_an_epoch_that_ends_after_half_a_minute():
    watch = Watch()

    def told(progress):
        progress.begin("final", 3, 10)
        for epoch in range(2):
            progress.end_epoch(RECORD | {"epoch": epoch + 1, "validation": None})
            watch.now += 300

    start = "final 2/3  1,234 samples/s  loss 0.5, task 0.25"
    assert lines_of(told, watch) == [f"{start}  about 5 minutes left"]


def test_the_time_left_is_that_of_the_steps_still_to_do():
    watch = Watch()

    def told(progress):
        progress.begin("final", 10, 100)
        progress.advance(5, 0, {"loss": 0.4}, 100.0)  # resumed in the middle
        watch.now += 36
        progress.advance(5, 10, {"loss": 0.4}, 100.0)  # 490 steps at 3.6 s
        watch.now += 3600
        progress.advance(5, 20, {"loss": 0.4}, 100.0)

    first, second = lines_of(told, watch)
    assert first.endswith("about 29 minutes left")
    assert second.endswith("about 24 hours left")


def test_a_short_training_tells_no_estimate():
    watch = Watch()

    def told(progress):
        progress.begin("final", 2, 10)
        for step in range(10):
            watch.now += 1
            progress.advance(0, step + 1, {"loss": 0.4}, 100.0)

    assert lines_of(told, watch) == []


@pytest.mark.parametrize("variable", ["RANK", "LOCAL_RANK"])
def test_only_the_first_of_several_processes_shows_progress(variable, monkeypatch):
    monkeypatch.setenv(variable, "1")
    assert type(shown_progress()) is Progress
    monkeypatch.setenv(variable, "0")
    assert type(shown_progress()) is LineProgress


def test_a_bar_with_losses_and_rate_that_leaves_its_last_line():
    out = io.StringIO()
    progress = BarProgress(Console(file=out, width=200, force_terminal=True))
    progress.begin("final", 20, 10)
    progress.advance(0, 5, {"loss": 0.4}, 100.0)
    (task,) = progress.bar.tasks
    assert (task.completed, task.total) == (5, 200)
    assert task.description == "final 1/20"
    assert task.fields["told"] == "100 samples/s  loss 0.4"
    progress.end_epoch(RECORD)
    progress.advance(1, 0, {"loss": 0.3}, 100.0)
    (task,) = progress.bar.tasks
    assert (task.completed, task.description) == (10, "final 2/20")
    told = "100 samples/s  validation 90.0%, conflicting 12.5%  loss 0.3"
    assert task.fields["told"] == told
    progress.end_epoch(RECORD | {"epoch": 20})
    assert progress.bar is None
    assert "final 20/20  1,234 samples/s" in out.getvalue()


def test_an_error_leaves_no_bar_behind():
    progress = BarProgress(Console(file=io.StringIO(), force_terminal=True))
    progress.begin("final", 2, 10)
    progress.close()
    assert progress.bar is None


def test_reading_of_data_is_told_every_half_minute_or_by_the_bar():
    watch = Watch()

    def told(progress):
        for done in range(1, 41):
            watch.now += 2
            progress.prepare("images", 50 * done, 2000)

    assert lines_of(told, watch) == ["images: 750 of 2,000", "images: 1,500 of 2,000"]
    bar = BarProgress(Console(file=io.StringIO(), force_terminal=True))
    bar.prepare("images", 64, 2000)
    (task,) = bar.bar.tasks
    assert (task.description, task.completed, task.total) == ("images", 64, 2000)
    bar.prepare("images", 2000, 2000)
    assert bar.bar is None


def test_what_is_shown_depends_on_where_it_is_shown(monkeypatch):
    def shown(*, terminal: bool, notebook: bool, widgets: bool) -> Progress:
        console = Console(file=io.StringIO(), force_terminal=terminal, force_jupyter=notebook)
        monkeypatch.setattr("rich.console.Console", lambda stderr: console)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if widgets else None)
        return shown_progress()

    assert type(shown(terminal=True, notebook=False, widgets=False)) is BarProgress
    assert type(shown(terminal=False, notebook=False, widgets=True)) is LineProgress
    assert type(shown(terminal=False, notebook=True, widgets=True)) is BarProgress
    assert type(shown(terminal=False, notebook=True, widgets=False)) is LineProgress
    assert type(shown_progress(quiet=True)) is Progress

"""What a person sees while it trains."""

import io

from rich.console import Console

from crossbias.progress import BarProgress, LineProgress, Progress, shown_progress

RECORD = {
    "stage": "final",
    "epoch": 1,
    "losses": {"loss": 0.5, "task": 0.25},
    "validation": {"accuracy": 0.9, "conflicting": 0.125, "worst_group": 0.0},
    "samples_per_second": 1234.5,
}


def test_plain_lines_where_there_is_no_terminal():
    out = io.StringIO()
    progress = LineProgress(Console(file=out, width=200))
    progress.begin("final", 2, 10)
    progress.advance(0, 5, {"loss": 0.4}, 100.0)
    progress.end_epoch(RECORD)
    progress.note("computing scores")
    assert out.getvalue().splitlines() == [
        "final 1/2  1,234 samples/s  validation 90.0%, conflicting 12.5%  loss 0.5, task 0.25",
        "computing scores",
    ]


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


def test_reading_of_data_is_told_in_tenths_or_by_the_bar():
    out = io.StringIO()
    progress = LineProgress(Console(file=out, width=200))
    for done in range(1, 41):
        progress.prepare("images", 50 * done, 2000)
    lines = out.getvalue().splitlines()
    assert lines == [f"images: {200 * tenth:,} of 2,000" for tenth in range(1, 11)]
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

"""What a person sees while it trains."""

import io

from rich.console import Console

from crossbias.cli.progress import LiveProgress, PlainProgress

RECORD = {
    "stage": "final",
    "epoch": 1,
    "losses": {"loss": 0.5, "task": 0.25},
    "validation": {"accuracy": 0.9, "conflicting": 0.125, "worst_group": 0.0},
    "samples_per_second": 1234.5,
}


def test_plain_lines_where_there_is_no_terminal():
    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=200))
    progress.begin("final", 2, 10)
    progress.advance(0, 5, {"loss": 0.4}, 100.0)
    progress.end_epoch(RECORD)
    progress.note("computing scores")
    assert out.getvalue().splitlines() == [
        "final 1/2  1,234 samples/s  validation 90.0 %, conflicting 12.5 %  loss 0.5, task 0.25",
        "computing scores",
    ]


def test_one_live_line_with_losses_rate_and_time_left(monkeypatch):
    out = io.StringIO()
    progress = LiveProgress(Console(file=out, width=200, force_terminal=True))
    monkeypatch.setattr("crossbias.cli.progress.time.monotonic", lambda: next(clock))
    clock = iter([10.0, 20.0])
    progress.begin("final", 20, 10)
    progress.advance(0, 5, {"loss": 0.4}, 100.0)
    assert progress.line == "final 1/20  100 samples/s  loss 0.4"
    progress.end_epoch(RECORD)
    progress.advance(1, 0, {"loss": 0.3}, 100.0)  # 5 steps in 10 s, 190 to go
    assert progress.line == (
        "final 2/20  6:20 left  100 samples/s  validation 90.0 %, conflicting 12.5 %  loss 0.3"
    )
    progress.end_epoch(RECORD | {"epoch": 20})
    assert progress.live is None
    assert "final 20/20  1,234 samples/s" in out.getvalue()


def test_an_error_leaves_no_live_line_behind():
    progress = LiveProgress(Console(file=io.StringIO(), force_terminal=True))
    progress.begin("final", 2, 10)
    progress.close()
    assert progress.live is None


def test_reading_of_data_is_told_in_tenths_or_in_the_live_line():
    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=200))
    for done in range(1, 41):
        progress.prepare("images", 50 * done, 2000)
    lines = out.getvalue().splitlines()
    assert lines == [f"images: {200 * tenth:,} of 2,000" for tenth in range(1, 11)]
    live = LiveProgress(Console(file=io.StringIO(), force_terminal=True))
    live.prepare("images", 64, 2000)
    assert live.live is not None
    assert live.line == "images: 64 of 2,000"
    live.prepare("images", 2000, 2000)
    assert live.live is None

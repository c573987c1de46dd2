"""A Ctrl-C that nothing heeds, such as a second one, is not silent."""

import sys

import pytest
import typer

from crossbias import cli


@pytest.mark.parametrize(("error", "code", "said"), [
    (KeyboardInterrupt(), 130, "crossbias: stopped at once; what was saved before is as it was; "),
    (typer.Exit(0), 0, ""),
])  # fmt: skip
def test_a_ctrl_c_says_what_is_left(error, code, said, monkeypatch, capsys):
    app = typer.Typer()

    @app.command()
    def stopped() -> None:
        raise error

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(sys, "argv", ["crossbias"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == code
    printed = " ".join(capsys.readouterr().err.split())
    assert printed.startswith(said)
    assert bool(printed) == bool(said)

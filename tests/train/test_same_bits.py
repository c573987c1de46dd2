"""A resume on a changed machine: as many threads as before, and a note about everything else."""

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.errors import Interrupted
from crossbias.methods import ERM
from crossbias.progress import Progress
from crossbias.runs.config_file import read_config, write_config
from crossbias.testing import tiny_data, tiny_network
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu")


class Heard(Progress):
    """Remembers the notes, and how many threads trained."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.threads: set[int] = set()

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)

    def begin(self, *_: object) -> None:
        """Count the threads."""
        self.threads.add(torch.get_num_threads())

    def end_epoch(self, record: object) -> None:
        """Count the threads."""
        self.begin()


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def fitted(folder, heard: Heard, **more: object) -> crossbias.Result:
    return crossbias.fit(
        ERM(), tiny_data(), network=tiny_network(), config=CONFIG, folder=folder, progress=heard,
        **more,
    )  # fmt: skip


def stopped(folder, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda run, step: True)
        with pytest.raises(Interrupted):
            fitted(folder, Heard())


def test_a_resume_computes_with_the_threads_of_the_start(tmp_path, monkeypatch, two_threads):
    stopped(tmp_path / "run", monkeypatch)
    heard = Heard()
    torch.set_num_threads(1)
    fitted(tmp_path / "run", heard, resume=True)
    assert heard.threads == {2}
    assert torch.get_num_threads() == 1
    assert not [note for note in heard.notes if "last bits" in note]


def test_a_resume_says_what_differs(tmp_path, monkeypatch):
    stopped(tmp_path / "run", monkeypatch)
    path = tmp_path / "run" / "config.json"
    config = read_config(path)
    config["environment"] |= {"torch": "1.0", "instructions": "ABACUS", "threads": "many"}
    write_config(path, config)
    heard = Heard()
    fitted(tmp_path / "run", heard, resume=True)
    (note,) = [note for note in heard.notes if "last bits" in note]
    assert f"torch 1.0, now {torch.__version__.partition(' (')[0]}" in note
    assert "instructions ABACUS, now" in note

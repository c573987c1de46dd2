"""One training over two hosts: network namespaces on one machine, with a shared folder."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.cluster

SETTINGS = ["data.size=8", "train.batch_size=12", "train.epochs=2", "train.optimizer=sgd"]
SETTINGS += ["train.augment=", "train.schedule=none", "train.lr=0.05"]


def command(images: Path, out: Path) -> list[str]:
    settings = [word for each in SETTINGS for word in ("--set", each)]
    train = ["-m", "crossbias", "train", "--data", f"folder:{images}", "--network", "mlp"]
    return [*train, "--device", "cpu", "--quiet", *settings, "--out", str(out)]


def train_on(hosts, images: Path, out: Path, hidden: Path | None = None) -> list:
    """Exit code, output and errors of ``torchrun`` on each host; the second may lack a folder."""
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--nnodes=2"]
    torchrun += ["--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=test"]
    torchrun += [f"--rdzv-endpoint={hosts.addresses[0]}:29400"]
    processes = [
        hosts.start(
            number, [*torchrun, f"--local-addr={address}", *command(images, out)],
            hidden=hidden if number == 1 else None,
        )
        for number, address in enumerate(hosts.addresses)
    ]  # fmt: skip
    printed = []
    for process in processes:
        try:
            printed.append((*process.communicate(timeout=300), process.returncode))
        except subprocess.TimeoutExpired:  # it waits for the other one
            process.terminate()  # which torchrun hands to what it started
            printed.append((*process.communicate(), process.returncode))
    return printed


def test_two_hosts_train_what_one_process_does(hosts, own_images, tmp_path, monkeypatch):
    images = own_images(tmp_path / "images")
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))
    printed = train_on(hosts, images, tmp_path / "two")
    assert [code for _, _, code in printed] == [0, 0], printed
    assert sum(out.count("run: ") for out, _, _ in printed) == 1
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "another"))
    subprocess.run([sys.executable, *command(images, tmp_path / "one")], check=True)
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for key, value in one.items():
        torch.testing.assert_close(two[key], value, rtol=0, atol=1e-6)
    built = [content(tmp_path / name) for name in ("cache", "another")]
    assert built[0] == built[1]


def content(cache: Path) -> dict[str, bytes]:
    """The pixels of all arrays of a cache."""
    return {str(path.relative_to(cache)): path.read_bytes() for path in cache.rglob("pixels")}


def test_a_host_without_the_data_is_named_and_the_other_ends_too(
    hosts, own_images, tmp_path, monkeypatch
):
    images = own_images(tmp_path / "images")
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))
    printed = train_on(hosts, images, tmp_path / "run", hidden=images)
    assert [code for _, _, code in printed] == [1, 1]  # torchrun's own, for a worker that failed
    lines = [line for _, err, _ in printed for line in err.splitlines() if "crossbias: " in line]
    (line,) = [line for line in lines if "processes cannot read the data" in line]
    assert f"1 of 2 processes cannot read the data; on {hosts.names[1]}: " in line
    assert str(images) in line
    assert not (tmp_path / "run").exists()

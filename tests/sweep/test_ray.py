"""A real Ray cluster of two nodes on the loopback."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from crossbias.errors import CrossbiasError
from crossbias.runs import RunFolder
from crossbias.sweep import Plan, run_sweep

PLAN = """
seeds = [0, 1, 2]
[train]
epochs = 200
batch_size = 4
"""


pytestmark = pytest.mark.cluster


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}


@pytest.fixture
def ray_variables(tmp_path_factory, monkeypatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path_factory.mktemp("r")))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@contextmanager
def started(before_second: Sequence[str] = ()) -> Iterator[str]:
    """The address of a cluster whose two nodes have a processor each.

    The command that starts the second node may be handed to another one.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--num-cpus=1", "--block"]
    head = ["--head", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
    head += [f"--port={address.rpartition(':')[2]}"]
    nodes = [subprocess.Popen([*ray, *head], **QUIET)]
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0:
                break
        time.sleep(0.1)
    nodes.append(subprocess.Popen([*before_second, *ray, f"--address={address}"], **QUIET))
    try:
        yield address
    finally:
        for node in nodes:
            node.terminate()
        for node in nodes:
            node.wait(60)


@pytest.fixture
def cluster(ray_variables) -> Iterator[str]:
    with started() as address:
        yield address


def kill_a_worker(folder: Path) -> None:
    """Kill the process of the first run that has saved something."""
    while not (saved := list(folder.glob("runs/*/checkpoint.pt"))):
        time.sleep(0.05)
    holder = json.loads((saved[0].parent / "writer.json").read_text())
    os.kill(holder["process"], signal.SIGKILL)


def test_a_worker_that_is_killed_resumes_elsewhere_to_the_same_bits(cluster, plan_file, tmp_path):
    plan = Plan.read(plan_file(PLAN))
    killer = threading.Thread(target=kill_a_worker, args=[tmp_path / "ray"], daemon=True)
    killer.start()
    runs = run_sweep(plan, tmp_path / "ray", on="ray", address=cluster, jobs=2)
    killer.join()
    assert [run.state for run in runs] == ["finished"] * 3
    folders = [RunFolder(tmp_path / "ray" / "runs" / run.name) for run in runs]
    resumes = [json.loads(folder.config.read_text()).get("resumes", []) for folder in folders]
    assert sorted(map(len, resumes)) == [0, 0, 1]
    for folder, run in zip(folders, run_sweep(plan, tmp_path / "local", jobs=2), strict=True):
        other = RunFolder(tmp_path / "local" / "runs" / run.name)
        assert folder.model.read_bytes() == other.model.read_bytes()


def test_without_an_address_a_cluster_of_this_machine_is_started_and_ended(
    ray_variables, plan_file, tmp_path
):
    import ray

    plan = Plan.read(plan_file(PLAN.replace("200", "1")))
    runs = run_sweep(plan, tmp_path / "ray", on="ray", jobs=2)
    assert [run.state for run in runs] == ["finished"] * 3
    assert not ray.is_initialized()


FOLDER = """
seeds = [0, 1, 2, 3]
[data]
name = "folder:{}"
[network]
name = "small-convnet"
[train]
epochs = 5
"""


def test_a_node_without_the_data_fails_its_runs_alone(
    ray_variables, plan_file, tmp_path, own_images, monkeypatch
):
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("no folder can be hidden from a node: root and util-linux are needed")
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))
    images = own_images(tmp_path / "images")
    plan = Plan.read(plan_file(FOLDER.format(images)))
    hidden = f'mount -t tmpfs none "{images}"; exec "$0" "$@"'
    with started(["unshare", "--mount", "sh", "-c", hidden]) as address:
        wait_for_nodes(address, 2)
        runs = run_sweep(plan, tmp_path / "s", on="ray", address=address, jobs=2)
    failed = [run for run in runs if run.state == "failed"]
    assert 1 <= len(failed) < 4
    assert [run.state for run in runs].count("finished") == 4 - len(failed)
    for run in failed:
        assert str(images) in run.line
        assert run.line.endswith(f" (on {socket.gethostname()})")
    runs = run_sweep(plan, tmp_path / "s", retry=True)  # on a machine that has it
    assert [run.state for run in runs] == ["finished"] * 4


def wait_for_nodes(address: str, count: int) -> None:
    """Wait until the first node knows of so many."""
    import ray

    limit = time.monotonic() + 60
    ray.init(address=address, log_to_driver=False)
    try:
        while sum(node["Alive"] for node in ray.nodes()) < count:
            assert time.monotonic() < limit
            time.sleep(0.1)
    finally:
        ray.shutdown()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "127.0.0.1:x"])
def test_an_address_that_does_not_answer_is_one_line(plan_file, tmp_path, address):
    with pytest.raises(CrossbiasError, match="no Ray cluster answers at"):
        run_sweep(Plan.read(plan_file("")), tmp_path / "s", on="ray", address=address)

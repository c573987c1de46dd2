"""One of two processes: probes of Fabric under DDP, and every method; findings go to a file.

Started by test_two_processes.py with LOCAL_RANK, MASTER_ADDR and MASTER_PORT set.
"""

import dataclasses
import itertools
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.errors import Interrupted
from crossbias.methods import ERM, HEX, LNL, METHODS, EnD, GroupDRO, Method, ReBias
from crossbias.methods.repair import WeightGame
from crossbias.methods.scores import gradient_acceptance
from crossbias.networks import Recipe
from crossbias.runs.folder import RunFolder
from crossbias.testing import tiny_data, tiny_network
from crossbias.train.rehearsal import Rehearsal
from crossbias.train.run import Run
from crossbias.types import Batch, Losses

PLAIN_LNL = LNL(layer="body.2", lambda_f=1.0, mu=1.0, from_biased=False)
ACCEPTANCE = {"dimensions": 9, "balance": 1.0, "floor": 0.01}
CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", processes=2, lr=0.01)


def probe_output(run: Run) -> str:
    """A NamedTuple goes through DDP, and its gradients are averaged over the processes."""
    network, _ = run.build(Network(nn.Flatten(), nn.Linear(4, 2)))
    output = network(torch.full((2, 1, 2, 2), float(run.devices.rank)))
    run.devices.backward(output.logits.sum())
    return f"{type(output).__name__} {network.head.weight.grad[0, 0].item()}"


def probe_other_method(run: Run) -> str:
    """Only forward is wrapped: another method that runs modules is refused."""

    class WithFeatures(Network):
        def features(self, inputs):
            return self.body(inputs)

    network, _ = run.build(WithFeatures(nn.Flatten(), nn.Linear(4, 2)))
    try:
        network.features(torch.zeros(2, 4))
    except RuntimeError as error:
        return type(error).__name__
    return "no error"


def probe_two_forwards(run: Run) -> str:
    """Two forwards of a network with batch norm before one backward."""
    body = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    plain = Network(body, nn.Linear(2, 2))
    network, _ = run.build(plain)
    plain.load_state_dict(network.state_dict())
    inputs = torch.arange(16.0).view(4, 1, 2, 2)
    loss = (plain(inputs).logits + plain(inputs.square()).logits).square().sum()
    loss.backward()
    try:
        both = network(inputs).logits + network(inputs.square()).logits
        run.devices.backward(both.square().sum())
    except RuntimeError as error:
        return type(error).__name__
    pairs = zip(plain.parameters(), network.parameters(), strict=True)
    right = all(torch.allclose(one.grad, other.grad, rtol=1e-4) for one, other in pairs)
    return "right gradient" if right else "wrong gradient"


def probe_late_stage(run: Run) -> int:
    """How often a stage is computed here; the second process asks after the first could save it."""
    computed = []
    stored = run.folder.path / "stages" / "late.pt"
    for _ in range(20 * run.devices.rank):
        if not stored.exists():
            time.sleep(0.1)
    run.stage("late", lambda: torch.tensor(computed.append(1) or 1.0))
    return len(computed)


PAIRWISE = {
    "end, released": EnD(alpha=1.0, beta=1.0),
    "end, paper": EnD(alpha=1.0, beta=1.0, variant="paper"),
    "group-dro, whole batch": GroupDRO(step_size=1.0, adjustment=2.0),
    "rebias, g first": ReBias(biased="mlp"),
    "rebias, f first": ReBias(biased="mlp", order="f-then-g", position="logits"),
    "hex": HEX(),
    "game of repair": WeightGame(weight_lr=10.0, linear=False),
}
"""Methods whose losses compare samples of a batch, or average over a part of it."""


def pairwise_step(method: Method, processes: int) -> dict[str, torch.Tensor]:
    """Losses and weights after one step of SGD in float64, on this process's share of a batch."""
    data = tiny_data()
    config = TrainConfig(
        batch_size=48, device="cpu", processes=processes, optimizer="sgd", momentum=0.0, lr=1.0
    )
    torch.set_default_dtype(torch.float64)
    try:
        run = Run(data, network=Recipe("mlp"), config=config)
        method.setup(run)
        (batch,) = run.loader(data).batches([torch.arange(48)])
        losses = method.step(batch._replace(inputs=batch.inputs.double()))
        found = {f"loss {name}": value.detach() for name, value in losses.items()}
        for part, module in method.state().items():
            if isinstance(module, nn.Module):
                weights = module.state_dict()
                found |= {f"{part} {name}": value.clone() for name, value in weights.items()}
            elif isinstance(module, torch.Tensor):
                found[part] = module.clone()
        return found
    finally:
        torch.set_default_dtype(torch.float32)


OTHER_OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {"biased": "mlp"} for name in ("rebias", "rubi", "learned-mixin")},
    **{name: {"layer": "body.2"} for name in ("lnl", "blindeye", "grl", "blindeye+grl")},
}
ENSEMBLES = {"lff with ensemble": "lff", "disent with ensemble": "disent"}


def alike(name: str, processes: int, **options: Any) -> dict[str, torch.Tensor]:
    """The weights that a method ends with; no network has statistics of a batch.

    Every batch has as many samples for each process. ``options`` are those of ``crossbias.fit``.
    """
    data, validation = tiny_data(), tiny_data(90, seed=1, split="validation")
    config = TrainConfig(
        epochs=2, epoch_size=32, batch_size=16, device="cpu", lr=0.01, optimizer="sgd",
        processes=processes,
    )  # fmt: skip
    settings = OTHER_OPTIONS.get(name, {})
    if name in ENSEMBLES:
        settings = {"ensemble": True, "confidence": 0.4}
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU())
    torch.manual_seed(0)
    network = Network(body, nn.Linear(4, 3)) if name == "ie" else Recipe("mlp")
    method = crossbias.create(ENSEMBLES.get(name, name), **settings)
    result = crossbias.fit(
        method, data, validation, network=network, config=config, progress=False, **options
    )
    return result.network.state_dict()


UNEVEN: dict[str, dict[str, Any]] = {
    "uneven": {},
    "uneven, in parts": {"accumulate": 3},
    "uneven, normalized": {"sync_batch_norm": True},
}
"""Trainings with batches that two processes cannot divide evenly."""


def uneven(settings: dict[str, Any], processes: int) -> dict[str, torch.Tensor]:
    """The weights of plain training on 48 samples in batches of 13, 13, 13 and 9."""
    config = TrainConfig(
        epochs=2, batch_size=13, device="cpu", lr=0.05, optimizer="sgd", processes=processes,
        **settings,
    )  # fmt: skip
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()]
    torch.manual_seed(0)
    body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8, momentum=None))
    network = Network(body, nn.Linear(8, 3)) if "sync_batch_norm" in settings else Recipe("mlp")
    result = crossbias.fit(ERM(), tiny_data(), network=network, config=config, progress=False)
    return result.network.state_dict()


RESUMED = ("erm", "lff", "pgd")
"""Methods that are resumed with another number of processes: plain, with a table, in stages."""


def stopped(name: str, processes: int, folder: Path) -> list[list[int]]:
    """Stop a run in the middle of its second epoch; the rows of its batches."""
    before, steps = Run.asked_to_stop, itertools.count(1)
    Run.asked_to_stop = lambda *_: next(steps) == 3
    try:
        with rows_of_batches() as rows, suppress(Interrupted):
            alike(name, processes, folder=folder)
            raise AssertionError("the run was not stopped")
    finally:
        Run.asked_to_stop = before
    return rows


def resumed(
    name: str, processes: int, folder: Path
) -> tuple[dict[str, torch.Tensor], list[list[int]]]:
    """Resume a run; its weights and the rows of its batches."""
    with rows_of_batches() as rows:
        return alike(name, processes, folder=folder, resume=True), rows


@contextmanager
def rows_of_batches() -> Iterator[list[list[int]]]:
    """Inside this, the training rows of each batch of plain training are noted, in their order."""
    rows: list[list[int]] = []
    before = ERM.loss

    def loss(self: ERM, batch: Batch) -> Losses:
        if not isinstance(self.run, Rehearsal):
            rows.append(self.run.devices.gather(batch.index.float()).int().tolist())
        return before(self, batch)

    ERM.loss = loss
    try:
        yield rows
    finally:
        ERM.loss = before


def main() -> None:
    warnings.simplefilter("ignore")
    rank, folder = int(os.environ["LOCAL_RANK"]), Path(sys.argv[1])
    data, validation = tiny_data(), tiny_data(90, seed=1, split="validation")
    torch.manual_seed(0)
    network = tiny_network()
    findings: dict[str, Any] = {}

    run = Run(data, network=network, config=CONFIG)
    findings["output"] = probe_output(run)
    findings["other method"] = probe_other_method(run)
    findings["two forwards"] = probe_two_forwards(run)
    run.folder = RunFolder(folder)  # which is there, also where the first process is slow
    findings["late stage"] = probe_late_stage(run)
    findings["score"] = run.score(network, lambda batch, output: batch.target.float() + 1)
    findings["acceptance"] = gradient_acceptance(run, network, **ACCEPTANCE)
    network.train()

    mine = torch.arange(3 - rank, dtype=torch.float32)[:, None] + 10 * rank
    findings["gathered"] = run.devices.gather(mine)

    for name in METHODS:
        method = crossbias.create(name)
        result = crossbias.fit(
            method, data, validation, network=network, config=CONFIG, folder=folder / name,
            log=["tensorboard"] if name == "erm" else (),
        )  # fmt: skip
        findings[name] = result.network.state_dict()
    plain = crossbias.create("mlp", num_classes=3, in_features=108)
    findings["plain start"] = {key: value.clone() for key, value in plain.state_dict().items()}
    config = dataclasses.replace(CONFIG, optimizer="sgd")
    for name, method in {"plain": ERM(), "plain lnl": PLAIN_LNL}.items():
        result = crossbias.fit(method, data, network=plain, config=config)
        findings[name] = result.network.state_dict()
    for name, method in PAIRWISE.items():
        findings[name] = pairwise_step(method, processes=2)
    for name, settings in UNEVEN.items():
        findings[name] = uneven(settings, processes=2)
    for name in RESUMED:
        findings[f"resumed {name}"] = resumed(name, 2, folder / "one" / name)
        findings[f"stopped {name}"] = stopped(name, 2, folder / "two" / name)
    for name in (*METHODS, *ENSEMBLES):
        findings[f"alike {name}"] = alike(name, processes=2)
    torch.save(findings, folder / f"{rank}.pt")


if __name__ == "__main__":
    main()

"""One number for each training sample, from a trained network: the scores of PGD."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.functional import head_gradient_norm, vmf_log_density
from crossbias.functional.precision import at_least_float32
from crossbias.functional.resampling import acceptance, direction_score, magnitude_score
from crossbias.methods.per_sample_gradients import parts_of, per_sample_gradients
from crossbias.networks.network import Network
from crossbias.types import Batch, Output

if TYPE_CHECKING:
    from crossbias.train.run import Run


_GPU_BATCH = 2048  # samples whose gradients keep a GPU busy


def head_norm(run: "Run", network: Network) -> Tensor:
    """Norm of the gradient of cross-entropy with respect to the head's weight (PGD, ICLR 2023).

    The release leaves the head's bias out.
    """
    return run.score(
        network, lambda b, o: head_gradient_norm(o.logits, b.target, o.features, bias=False)
    )


def loss(run: "Run", network: Network) -> Tensor:
    """Cross-entropy (PGD, ICLR 2022 submission, eq. 2 and appendix H)."""
    return run.score(
        network,
        lambda b, o: F.cross_entropy(at_least_float32(o.logits), b.target, reduction="none"),
    )


def entropy(run: "Run", network: Network) -> Tensor:
    """Entropy of the prediction (PGD, ICLR 2022 submission, eq. 2)."""

    def of_prediction(_: Batch, output: Output) -> Tensor:
        log_p = at_least_float32(output.logits).log_softmax(1)
        return -(log_p.exp() * log_p).sum(1)

    return run.score(network, of_prediction)


def softmax_miss(run: "Run", network: Network) -> Tensor:
    """One minus the probability of the target (appendix H)."""
    return run.score(network, lambda b, o: 1 - _of_target(o.logits.float().softmax(1), b))


def logit_gap(run: "Run", network: Network) -> Tensor:
    """How far the target's logit is below the largest of any sample (appendix H)."""
    logits = run.score(network, lambda b, o: _of_target(o.logits, b))
    rows = run.data.index.to(logits.device)
    gap = torch.zeros_like(logits)
    gap[rows] = logits[rows].max() - logits[rows]
    return gap


def gradient_acceptance(
    run: "Run", network: Network, *, dimensions: int, balance: float, floor: float
) -> Tensor:
    """PGD's sampling probability from gradients of the whole network (ICLR 2022 submission).

    Two passes: the first finds each sample's norm and each class's dominant coordinates, the
    second each sample's direction on those, from gradients of the parameters they lie in.
    Gradients of all samples never exist at once.

    Args:
        run: The run; its data is scored.
        network: The biased network.
        dimensions: Number k of dominant coordinates, those with the largest sum of absolute
            gradients over a class; all of them where there are fewer.
        balance: The paper's lambda.
        floor: Smallest density of a direction, see ``direction_score``.

    Returns:
        ``(full_size,)`` acceptance probabilities; zero for rows that are not in the run's data.
    """
    network = network.eval()
    named = {name: p.numel() for name, p in network.named_parameters() if p.requires_grad}
    size = sum(named.values())
    totals = torch.zeros(run.data.num_classes, size, device=run.device)
    norms = torch.zeros(run.data.full_size, device=run.device)
    for index, target, gradients in _gradients(run, network):
        norms[index] = gradients.norm(dim=1)
        # A product: adding rows to rows would take turns on a GPU.
        totals += F.one_hot(target, run.data.num_classes).float().T @ gradients.abs_()
    norms = run.devices.sum(norms)
    dominant = run.devices.sum(totals).topk(min(dimensions, size), dim=1).indices  # (classes, k)
    directions = torch.zeros(run.data.full_size, dominant.shape[1], device=run.device)
    parts, dominant = parts_of(dominant, list(named.values()))
    names = [name for number, name in enumerate(named) if number in parts]
    for index, target, gradients in _gradients(run, network, names):
        directions[index] = gradients.gather(1, dominant[target])
    directions = run.devices.sum(directions)
    return _accepted(run, norms, directions, balance=balance, floor=floor)


def _gradients(
    run: "Run", network: Network, names: list[str] | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Rows, targets and gradients of the run's data, in its precision; many at once on a GPU."""
    for batch in run.batches(_GPU_BATCH if run.device.type == "cuda" else None):
        with run.devices.autocast():
            chunks = per_sample_gradients(network, batch.inputs, batch.target, names=names)
        for rows, gradients in chunks:
            yield batch.index[rows], batch.target[rows], gradients


def _accepted(
    run: "Run", norms: Tensor, directions: Tensor, *, balance: float, floor: float
) -> Tensor:
    rows, target = run.data.index.to(norms.device), run.data.targets.to(norms.device)
    density = torch.zeros(len(rows), device=norms.device)
    for number in range(run.data.num_classes):
        of_class = target == number
        if of_class.any():
            density[of_class] = vmf_log_density(directions[rows[of_class]]).to(density.dtype)
    table = torch.zeros(run.data.full_size, dtype=torch.float64, device=norms.device)
    table[rows] = acceptance(
        magnitude_score(norms[rows], target),
        direction_score(density, target, floor=floor),
        target,
        balance=balance,
    )
    return table


def _of_target(values: Tensor, batch: Batch) -> Tensor:
    return values.gather(1, batch.target[:, None]).squeeze(1)


Score = Callable[["Run", Network], Tensor]
SIMPLE_SCORES: dict[str, Score] = {
    "norm": head_norm,
    "loss": loss,
    "softmax": softmax_miss,
    "logit": logit_gap,
}
"""Scores by name that need nothing but the network: larger for samples to be drawn more often."""

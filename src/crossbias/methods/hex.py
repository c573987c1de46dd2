"""HEX: what a summary of the texture explains is projected out of the answers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.formatting import percent
from crossbias.functional import column_norms, without_texture
from crossbias.methods.symptoms import has_learned, training_accuracy
from crossbias.networks.network import Network
from crossbias.networks.texture_summary import NormalizedBody, TextureSummary
from crossbias.parameters import Count, WholeNumber
from crossbias.train.method import Method
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run


@dataclass(kw_only=True)
class HEX(Method):
    """HEX (Wang et al., ICLR 2019): a projection against a summary of gray-level texture.

    Beside the network's features h, a neural gray-level co-occurrence matrix gives features G of
    the texture. Both are divided by their norms over the batch. One linear classifier sees both:
    F_A is its answer to [h, G], F_G to [0, G] and F_P to [h, 0]. Trained is what F_G does not
    explain::

        min CE((I - F_G (F_G^T F_G)^-1 F_G^T) F_A, y)

    The trained network answers with F_P. The norms and the projection see the whole batch,
    whatever the number of processes.

    Args:
        levels: Number of gray levels and of learned thresholds; 16 in the experiments on digits,
            128 in the example for ImageNet.
        row: Rows between the neighbors whose gray levels are compared; 0 on digits.
        column: Columns between them; 1 on digits. With 0 and 0, as in the example for ImageNet,
            a pixel is compared with itself.
    """

    name: ClassVar[str] = "hex"
    paper: ClassVar[str] = "HEX (ICLR 2019)"

    levels: Count = 16
    row: WholeNumber = 0
    column: WholeNumber = 1

    @property
    def minimum_batch(self) -> int:  # type: ignore[override]  # depends on the data
        """The projection leaves nothing of a batch with no more samples than classes."""
        return self.run.data.num_classes + 1

    def network_for(self, make: Callable[[], Network]) -> Network:
        """One of the run's own networks, whose features are divided by their norms."""
        network = make()
        return Network(NormalizedBody(network.body, network.num_features), network.head)

    def fit(self, run: "Run") -> Network:
        """One training, and a look at what is left without the texture."""
        network = run.train(self)
        accuracy = training_accuracy(run, network).overall
        if not has_learned(accuracy, run.data):
            run.warn(
                "nothing is left without texture",
                f"Without the texture, the network is right on {percent(accuracy)} of the training "
                f"samples, hardly better than chance: what it learned went with the projection.",
                "Take larger batches, train longer, or take a method for another kind of bias.",
            )
        return network

    def setup(self, run: "Run") -> None:
        """Build the network and the summary of the texture."""
        if run.data.inputs.ndim != 4:
            raise CrossbiasError(
                f"HEX needs images, whose gray levels it compares, but {run.data.name} has inputs "
                f"{tuple(run.data.inputs.shape[1:])}; take another method"
            )
        self.run, self.loader = run, run.loader(run.data)
        self.network, self.optimizer = run.build(lambda: self.network_for(run.make_network))
        options = {"levels": self.levels, "row": self.row, "column": self.column}
        self.texture, self.texture_optimizer = run.build(
            lambda: TextureSummary(run.data.num_classes, **options)
        )

    def step(self, batch: Batch) -> Losses:
        """One update of network and summary, by the whole batch on every process."""
        images = batch.inputs * self.loader.std + self.loader.mean
        features, texture, target = (
            self.run.gather(part)
            for part in (
                self.network(batch.inputs).features,
                self.texture(images),
                batch.target,
            )
        )
        of_both, of_texture, answer = self._logits(features, texture)
        loss = F.cross_entropy(without_texture(of_both, of_texture), target)
        self.run.minimize(loss, self.optimizer, self.texture_optimizer)
        task = F.cross_entropy(answer.detach(), target)
        alive = (texture.detach() > 0).any(0).to(task.dtype).mean()
        return {"loss": loss, "task": task, "alive": alive}

    def state(self) -> dict[str, Any]:
        """Network, summary and their optimizers."""
        return super().state() | {
            "texture": self.texture,
            "texture_optimizer": self.texture_optimizer,
        }

    def examine(self, epochs: Sequence[Mapping[str, float]]) -> None:
        """Warn where the summary of the texture died."""
        if epochs[-1]["alive"] == 0:
            self.run.warn(
                "texture says nothing",
                "All features of the texture were 0 in the last epoch: nothing was projected out "
                "but what all samples share.",
                "Lower train.lr, or change levels.",
            )

    def _logits(self, features: Tensor, texture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """F_A, F_G and F_P from the features of the whole batch."""
        head, body = self.network.head, self.network.body
        # Norms grow with the samples; a rest of an epoch has those of a whole batch.
        whole = math.sqrt(self.run.config.batch_size / len(features))
        norms, texture_norms = (whole * column_norms(part) for part in (features, texture))
        assert isinstance(body, NormalizedBody)
        body.track(norms)
        answer = F.linear(features / norms, head.weight, head.bias)
        added = F.linear(texture / texture_norms, self.texture.head.weight)
        of_texture = added if head.bias is None else added + head.bias
        return answer + added, of_texture, answer

"""A method's step as one CUDA graph: small networks spend more time in launches than in kernels."""

from collections.abc import Callable

import torch

from crossbias.types import Batch, Losses

_EAGER_STEPS = 3  # cuDNN picks its kernels and optimizers make their state in these


class GraphedStep:
    """Runs a step eagerly a few times, then records it and replays the record.

    A batch of another shape, such as the rest at the end of an epoch, is run eagerly. So are all
    steps where recording fails. The step must be the same sequence of device operations every
    time (``Method.capturable``), and all steps must run on one stream that is not the default one.

    Args:
        step: The step.
        note: Told once where recording fails.
    """

    def __init__(self, step: Callable[[Batch], Losses], note: Callable[[str], None]) -> None:
        self.step, self.note = step, note
        self.shape: torch.Size | None = None
        self.eager_steps, self.failed = 0, False
        self.graph: torch.cuda.CUDAGraph | None = None
        self.batch: Batch
        self.losses: Losses

    def __call__(self, batch: Batch) -> Losses:
        """One step, by replay where possible."""
        if self.shape is None:
            self.shape = batch.inputs.shape
        if self.failed or batch.inputs.shape != self.shape:
            return self.step(batch)
        if self.eager_steps < _EAGER_STEPS:
            self.eager_steps += 1
            return self.step(batch)
        if self.graph is None and not self._record(batch):
            return self.step(batch)
        for static, new in zip(self.batch, batch, strict=True):
            static.copy_(new)
        assert self.graph is not None
        self.graph.replay()
        return self.losses

    def _record(self, batch: Batch) -> bool:
        """Record the step, which runs nothing: the first replay follows. False if it fails."""
        self.batch = Batch(*(tensor.clone() for tensor in batch))
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
                self.losses = self.step(self.batch)
        except RuntimeError as error:
            self.failed = True
            reason = str(error).splitlines()[0]
            self.note(f"steps are not replayed as a CUDA graph, which is slower: {reason}")
            return False
        self.graph = graph
        return True

"""Run: everything a method may ask of the outside world."""

import copy
from collections.abc import Callable, Iterator
from typing import TypeVar, overload

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import Optimizer

from crossbias.data.augment.augment import Augmentation, augmentation
from crossbias.data.dataset import BiasedDataset
from crossbias.data.loader import Loader
from crossbias.data.order import batches
from crossbias.errors import Interrupted
from crossbias.networks.network import Network
from crossbias.networks.recipe import Recipe
from crossbias.progress import Progress
from crossbias.runs.folder import RunFolder
from crossbias.seeds import global_randomness_kept, seed_for, seed_global
from crossbias.train.config import TrainConfig
from crossbias.train.devices import Devices, unwrapped
from crossbias.train.evaluation import evaluation_pass
from crossbias.train.interrupts import Interrupts
from crossbias.train.loop import Training
from crossbias.train.method import Method
from crossbias.train.optimizers import make_optimizer
from crossbias.types import Batch, Output
from crossbias.verify import Metrics, count

_Module = TypeVar("_Module", bound=nn.Module)

_AGREE_STEPS = 16  # how often several processes ask each other whether to stop


class Run:
    """Data, devices, configuration and folder of one run, and what methods do with them.

    Args:
        data: The training data.
        validation: Data for validation and selection, never trained on.
        network: What ``build`` makes by default: a recipe, or a network to copy.
        config: How to train.
        folder: Where to keep checkpoints and stages; ``None`` keeps nothing.
        progress: Who hears about it.
        interrupts: Who knows whether to stop.
    """

    def __init__(
        self,
        data: BiasedDataset,
        *,
        network: Network | Recipe,
        config: TrainConfig,
        validation: BiasedDataset | None = None,
        folder: RunFolder | None = None,
        progress: Progress | None = None,
        interrupts: Interrupts | None = None,
    ) -> None:
        self.data, self.validation = data, validation
        self.network, self.config, self.folder = network, config, folder
        self.progress = progress or Progress()
        self.interrupts = interrupts or Interrupts()
        self.devices = Devices(config)
        self.device = self.devices.device
        self.stage_name = "final"
        self.optimizers: list[tuple[Optimizer, TrainConfig]] = []
        self._loaders: dict[int, Loader] = {}

    @overload
    def build(
        self, network: Network | Recipe | None = None, config: TrainConfig | None = None
    ) -> tuple[Network, Optimizer]: ...

    @overload
    def build(
        self, network: _Module | Callable[[], _Module], config: TrainConfig | None = None
    ) -> tuple[_Module, Optimizer]: ...

    def build(
        self,
        network: nn.Module | Recipe | Callable[[], nn.Module] | None = None,
        config: TrainConfig | None = None,
    ) -> tuple[nn.Module, Optimizer]:
        """A network on the device and its optimizer; its learning rate follows its schedule.

        Args:
            network: A recipe, a module to copy, or a function that makes one, which then draws
                its weights from this run's seed; the run's own if not given.
            config: Optimizer and schedule of this network; the run's if not given.
        """
        config = config or self.config
        number = len(self.optimizers)
        with global_randomness_kept(self.device):
            seed_global(seed_for(self.config.seed, "network", self.stage_name, number), self.device)
            module = self._fresh(network or self.network).to(self.device)
        if self.device.type == "cuda" and not any(p.ndim == 5 for p in module.parameters()):
            module.to(memory_format=torch.channels_last)
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        optimizer = make_optimizer(config, trained, self.device)
        if config.compile:
            module.compile()
        wrapped, optimizer = self.devices.setup(module, optimizer)
        self.optimizers.append((optimizer, config))
        return wrapped, optimizer

    def outline(self) -> Network:
        """The run's network on the CPU, not trained, to look at its layers."""
        with global_randomness_kept(self.device):
            network = self._fresh(self.network).cpu()  # the trained one of a stage is elsewhere
        assert isinstance(network, Network)
        return network.eval()

    def minimize(
        self, loss: Tensor, *optimizers: Optimizer, partial: Optimizer | None = None
    ) -> None:
        """One update: gradients of the loss, clipped if configured, and a step.

        Args:
            loss: What to minimize.
            *optimizers: Of the networks that move.
            partial: Of a network that the loss reaches through ``until_tap``. Layers it does not
                reach get a gradient of zero, so that weight decay and momentum still move them.
        """
        moving = optimizers if partial is None else (*optimizers, partial)
        for optimizer in moving:
            optimizer.zero_grad()
        self.devices.backward(loss)
        if partial is not None:
            self.devices.complete_gradients(partial)
        for optimizer in moving:
            if self.config.gradient_clip is not None:
                parameters = [p for group in optimizer.param_groups for p in group["params"]]
                nn.utils.clip_grad_norm_(parameters, self.config.gradient_clip)
            optimizer.step()

    def until_tap(self, network: Network, inputs: Tensor) -> Tensor:
        """``Network.until_tap`` in the run's precision; see ``partial`` of ``minimize``."""
        with self.devices.autocast():
            return unwrapped(network).until_tap(inputs)

    def fixed(self, module: nn.Module, inputs: Tensor) -> Tensor:
        """A module's output, through which gradients reach the inputs but not its parameters."""
        parameters = {name: p.detach() for name, p in unwrapped(module).named_parameters()}
        with self.devices.autocast():
            output = functional_call(unwrapped(module), parameters, (inputs,))
        assert isinstance(output, Tensor)
        return output

    def train(
        self,
        method: Method,
        *,
        name: str = "final",
        epochs: int | None = None,
        steps: int | None = None,
        weights: Tensor | None = None,
        network: Network | None = None,
    ) -> Network:
        """Train a method on this run's data; a stage that was finished before is not repeated.

        Args:
            method: What to train.
            name: Name of the stage, in the log and in the folder.
            epochs: Instead of the configured length.
            steps: Instead of the configured length, in updates.
            weights: One number for each row of the full training set: samples are drawn in
                proportion to it; or a mask of the rows to train on.
            network: To start from a copy of, instead of the run's own.

        Returns:
            The trained network, in evaluation mode.
        """
        child = copy.copy(self)
        child.stage_name, child.optimizers = name, []
        child.network = network or self.network
        method.setup(child)
        finished = self.folder.load_network(name) if self.folder is not None else None
        if finished is not None:
            self.progress.note(f"stage {name!r} is finished already")
            method.network.load_state_dict(finished)
        else:
            with self.devices.training():
                Training(child, method, name=name, epochs=epochs, steps=steps, weights=weights).go()
            self.devices.share(method.network)
            if self.folder is not None and self.devices.is_main and name != "final":
                self.folder.save_network(name, method.network.state_dict())
        return unwrapped(method.network).eval()

    def stage(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """What ``compute`` returns, kept in the folder so that a resumed run reads it back."""
        value = self.folder.load_tensor(name) if self.folder is not None else None
        # All processes or none: one that comes late may find what the first has saved by then.
        missing = self.devices.any(value is None)
        if value is None or missing:
            self.progress.note(f"computing {name}")
            value = compute().cpu()
            if self.folder is not None and self.devices.is_main:
                self.folder.save_tensor(name, value)
            self.devices.barrier()
        return value

    @property
    def steps(self) -> int:
        """Updates in a training of the configured length on this run's data.

        Where a small rest joins the batch before it, an epoch takes one less.
        """
        epoch_steps = len(batches(torch.arange(len(self.data)), self.config.batch_size))
        return self.config.steps or self.config.epochs * epoch_steps

    def preview(self) -> Output:
        """What a fresh network gives for the first batch, to refuse one that cannot serve."""
        with global_randomness_kept(self.device):
            network = self._fresh(self.network).to(self.device)
        assert isinstance(network, Network)
        _, output = next(self._outputs(network, self.data))
        return output

    def augmentation(self) -> Augmentation | None:
        """The configured augmentation of training inputs, or else the data's own."""
        named = self.data.augment if self.config.augment is None else self.config.augment
        return augmentation(named, size=self.data.crop) if named else None

    def fetch(self, index: Tensor, number: int) -> Tensor:
        """Inputs of chosen rows, beside those of the batch, for step ``number`` of this stage.

        Args:
            index: ``(B,)`` rows of the full training set, on the device.
            number: Of the step, which seeds their augmentation.
        """
        seed = seed_for(self.config.seed, self.stage_name, "fetch", number, self.devices.rank)
        return self.loader(self.data).fetch(index, augment=self.augmentation(), seed=seed)

    def on(self, data: BiasedDataset) -> "Run":
        """The same run on other data, such as a subset."""
        child = copy.copy(self)
        child.data = data
        return child

    def score(self, network: Network, function: Callable[[Batch, Output], Tensor]) -> Tensor:
        """One number for each row of the full training set, from one pass over the data.

        Args:
            network: In evaluation mode for the pass; batches come without augmentation.
            function: Numbers ``(B,)`` of a batch, from the batch and the network's output.

        Returns:
            ``(full_size,)`` on the device; zero for rows that are not in this run's data.
        """
        table = torch.zeros(self.data.full_size, device=self.device)
        for batch, output in self._outputs(network, self.data):
            table[batch.index] = function(batch, output).float()
        return self.devices.sum(table)

    def validate(self, network: Network) -> dict[str, float] | None:
        """Accuracies on the validation data; those by group where its bias is known."""
        data = self.validation
        if data is None:
            return None
        sizes = {"num_classes": data.num_classes, "num_biases": data.num_biases}
        counts = torch.zeros((), dtype=torch.int64, device=self.device)
        for batch, output in self._outputs(network, data):
            counts = counts + count(batch.target, batch.bias, output.logits.argmax(1), **sizes)
        metrics = Metrics.from_counts(
            self.devices.sum(counts),
            alignment=self.data.alignment(),
            classes=data.classes,
            biases=data.values[data.bias] if data.bias else (),
        )
        return metrics.summary()

    def loader(self, data: BiasedDataset) -> Loader:
        """Batches of a data set, which is moved to the device once."""
        if id(data) not in self._loaders:
            self._loaders[id(data)] = Loader(
                data,
                self.device,
                resident_bytes=self.config.resident_bytes,
                workers=self.config.workers,
                share=(self.devices.rank, self.devices.world),
            )
        return self._loaders[id(data)]

    def asked_to_stop(self, step: int) -> bool:
        """Whether to stop after this step; several processes agree on one."""
        if self.devices.world > 1 and step % _AGREE_STEPS:
            return False
        return self.devices.any(self.interrupts.requested is not None)

    def _fresh(self, network: nn.Module | Recipe | Callable[[], nn.Module]) -> nn.Module:
        if isinstance(network, Recipe):
            return network.build(self.data)
        return copy.deepcopy(network) if isinstance(network, nn.Module) else network()

    def batches(self, size: int | None = None) -> Iterator[Batch]:
        """The data in order, without augmentation; each process has its share.

        Args:
            size: Samples of one process in a batch; as many as a batch of training if not given.
        """
        return self._batches(self.data, size or self.config.batch_size)

    def _batches(self, data: BiasedDataset, size: int) -> Iterator[Batch]:
        cut = batches(torch.arange(len(data)), size * self.devices.world)
        for batch in self.loader(data).batches(cut):
            if self.devices.world == 1 and self.interrupts.requested:
                raise Interrupted("stopped on request between two trainings")
            yield batch

    def _outputs(self, network: Network, data: BiasedDataset) -> Iterator[tuple[Batch, Output]]:
        """Batches and outputs of one pass in evaluation mode, this process's share of them."""
        found = self._batches(data, self.config.batch_size)
        return evaluation_pass(unwrapped(network), found, self.devices.autocast)

"""Run: everything a method may ask of the outside world."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import Optimizer

from crossbias.data.augment.augment import Augmentation, augmentation
from crossbias.data.dataset import BiasedDataset
from crossbias.data.loader import Loader
from crossbias.data.order import batches
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.networks.fresh import looks_trained, redraw
from crossbias.networks.network import Network
from crossbias.networks.recipe import Recipe
from crossbias.networks.synchronized import synchronized
from crossbias.networks.trace import shaken
from crossbias.progress import Progress
from crossbias.runs.files import write_json
from crossbias.runs.folder import RunFolder
from crossbias.runs.health import Symptom, load_health, save_health
from crossbias.seeds import global_randomness_kept, seed_for, seed_global
from crossbias.tracking import Trackers
from crossbias.train.checkpoint import packed, restore
from crossbias.train.config import TrainConfig
from crossbias.train.data_symptoms import data_symptoms
from crossbias.train.devices import Devices, unwrapped
from crossbias.train.evaluation import evaluation_pass
from crossbias.train.interrupts import Interrupts
from crossbias.train.layout import settle_layout
from crossbias.train.loop import Training
from crossbias.train.method import Method
from crossbias.train.optimizers import make_optimizer
from crossbias.types import Batch, Output
from crossbias.verify import Cells, Metrics, count_right

_Module = TypeVar("_Module", bound=nn.Module)
_Kind = TypeVar("_Kind")

_AGREE_STEPS = 16  # how often several processes ask each other whether to stop


class Run:
    """Data, devices, configuration and folder of one run: what a method programs against.

    ``crossbias.fit`` makes one and hands it to ``Method.fit``, which hands it on to ``setup``.

    Args:
        data: The training data.
        validation: Data for validation and selection, never trained on.
        network: What ``build`` makes by default: a recipe, or a network as an object.
        config: How to train.
        fresh: Whether a network given as an object gets new random weights, its own ones shuffled
            by the run's seed, every time it is built. If not given, one that has not been trained
            does, and a trained one is copied (``crossbias.networks.looks_trained``). A recipe
            always builds a new network.
        folder: Where to keep checkpoints and stages; ``None`` keeps nothing.
        progress: Receives progress reports.
        interrupts: Knows whether somebody asked to stop.

    Attributes:
        device: Where tensors of a batch are.
        trackers: Where the run is logged to, such as MLflow; nowhere unless set.
        plain: A network that the method has trained plainly, for as many epochs as the final one. A
            method sets it. The run warns if the final network is worse on validation data with bias
            labels.
        stage_name: Name of the stage that is trained, in the folder and in the log, such as
            ``final`` or ``inner/biased``.
    """

    def __init__(
        self,
        data: BiasedDataset,
        *,
        network: Network | Recipe,
        config: TrainConfig,
        validation: BiasedDataset | None = None,
        fresh: bool | None = None,
        folder: RunFolder | None = None,
        progress: Progress | None = None,
        interrupts: Interrupts | None = None,
    ) -> None:
        self.data, self.validation = data, validation
        self.network, self.config, self.folder = network, config, folder
        if fresh is None:
            fresh = isinstance(network, Recipe) or not looks_trained(network)
        self.fresh = fresh
        self.interrupts = interrupts or Interrupts()
        self.trackers = Trackers()
        self.plain: Network | None = None
        self.devices = Devices(config)
        self.device = self.devices.device
        # Of several processes, the first one reports.
        self.progress = progress if progress and self.devices.is_main else Progress()
        self.stage_name = self._seed_name = "final"
        self.optimizers: list[tuple[Optimizer, TrainConfig]] = []
        # Of a pipeline inside another one: before the names of its stages, before the names that
        # seed them, and whether the run ends with it.
        self._prefix, self._seed_prefix, self._last = "", "", True
        self._loaders: dict[int, Loader] = {}
        self._health: dict[str, Symptom] = {}  # shared by the runs of all stages

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

        Parameters that do not require a gradient are left out of the optimizer.

        Args:
            network: A recipe, a module to copy, or a function that makes one, which then draws
                its weights from this run's seed; the run's own if not given.
            config: Optimizer, schedule and clipping of this network; the run's if not given.
        """
        config = config or self.config
        module = self._placed(network)
        if config.sync_batch_norm and self.devices.world > 1:
            module = synchronized(module)
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        optimizer = make_optimizer(config, trained, self.device)
        if config.compile:
            module.compile()
        wrapped, optimizer = self.devices.setup(module, optimizer)
        self.optimizers.append((optimizer, config))
        return wrapped, optimizer

    def frozen(self, network: _Module) -> _Module:
        """A copy of a module on the device that is never trained: evaluation mode, no gradient."""
        module = self._placed(network)
        assert isinstance(module, type(network))
        return module.eval().requires_grad_(False)

    def make_network(self) -> Network:
        """One of the run's own networks on the CPU, to build something larger from.

        Its weights come from torch's global generator, which ``build`` seeds for each network:
        two of them differ, unless they are copies of a trained network.
        """
        network = self._made(self.network)
        assert isinstance(network, Network)
        return network

    def outline(self) -> Network:
        """The run's network on the CPU, not trained, to look at its layers."""
        with global_randomness_kept(self.device):
            return self.make_network().cpu().eval()

    def minimize(
        self, loss: Tensor, *optimizers: Optimizer, partial: Optimizer | None = None
    ) -> None:
        """One update: gradients of the loss, clipped if configured, and a step.

        Args:
            loss: What to minimize.
            *optimizers: The optimizers of the networks that move.
            partial: The optimizer of a network that the loss reaches through ``until_tap``.
                Layers it does not reach get a gradient of zero, so that weight decay and momentum
                still move them.
        """
        moving = optimizers if partial is None else (*optimizers, partial)
        for optimizer in moving:
            optimizer.zero_grad()
        self.devices.backward(loss)
        if partial is not None:
            self.devices.complete_gradients(partial)
        for optimizer in moving:
            self.move(optimizer)

    def move(self, optimizer: Optimizer) -> None:
        """The end of an update: clip the gradients if configured, and step."""
        self._clip(optimizer)
        optimizer.step()

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of the whole batch from this process's rows, for losses over pairs of samples.

        With one process these are the rows themselves. With several, every process computes the
        loss of the whole batch; gradients flow to its own rows, scaled so that the average over
        the processes is the gradient of that loss.

        Args:
            tensor: ``(b, ...)`` one row for each sample of this process's share.

        Returns:
            ``(B, ...)`` one row for each sample of the batch, in its order.
        """
        return self.devices.gather(tensor)

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
        config: TrainConfig | None = None,
    ) -> Network:
        """Train a method on this run's data; a stage that was finished before is not repeated.

        Args:
            method: What to train.
            name: Name of the stage, in the log and in the folder. ``final`` is the training that
                the run ends with.
            epochs: Length instead of the configured one.
            steps: Length instead of the configured one, in updates.
            weights: How often each row of the full training set is taken, see
                ``crossbias.data.order.epoch_order``: a mask, whole numbers, or sampling weights.
            network: Start from a copy of this network, instead of from the run's own.
            config: Configuration of this stage; the run's if not given. Derive it with
                ``dataclasses.replace(run.config, lr=0.1)``.

        Returns:
            The trained network, in evaluation mode.
        """
        child = copy.copy(self)
        child.stage_name, child.optimizers = self._prefix + name, []
        child._seed_name = self._seed_prefix + name
        child.config = config or self.config
        if network is not None:
            child.network, child.fresh = network, False
        method.setup(child)
        final = name == "final" and self._last
        saved = None if final or self.folder is None else self._state_of(child.stage_name)
        if saved is not None:
            self.progress.note(f"stage {child.stage_name!r} is finished already")
            restore(method.state(), saved, f"the state of stage {child.stage_name!r}")
        else:
            training = Training(
                child, method, final=final, epochs=epochs, steps=steps, weights=weights
            )
            for symptom in data_symptoms(self.data, self.validation, self.config.selection):
                self.warn(*symptom)
            with self.devices.training():
                training.go()
            self.devices.share(method.network)
            if self.folder is not None and self.devices.is_main and not final:
                self.folder.save_stage(f"{child.stage_name}.state", packed(method.state()))
        return unwrapped(method.network).eval()

    def stage(
        self, name: str, compute: Callable[[], Tensor], *, shape: tuple[int, ...] | None = None
    ) -> Tensor:
        """What ``compute`` returns, kept in the folder so that a resumed run reads it back.

        Args:
            name: Name of the stage in the folder.
            compute: Called if the folder does not have the value yet.
            shape: Shape of the value, if it is to be checked when it is read back: finite numbers
                of this shape, or else the file is refused.
        """
        name = self._prefix + name
        value = self.folder.load_stage(name) if self.folder is not None else None
        # All processes or none: one that comes late may find what the first has saved by then.
        missing = self.devices.any(value is None)
        if value is None or missing:
            self.progress.note(f"computing {name}")
            value = compute().cpu()
            if self.folder is not None and self.devices.is_main:
                self.folder.save_stage(name, value)
            self.devices.barrier()
        value = _as_kind(value, Tensor, name)
        if shape is not None and not (value.shape == shape and _is_finite(value)):
            raise CrossbiasError(
                f"the stage {name!r} holds {value.dtype} of shape {tuple(value.shape)}, not finite "
                f"numbers of shape {shape}; delete its file and resume"
            )
        return value

    def keep(self, name: str, value: Any) -> None:
        """Write a JSON file beside the stages, for people and other programs to read."""
        if self.folder is not None and self.devices.is_main:
            path = self.folder.stages / f"{self._prefix}{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, value)

    def warn(self, name: str, sentence: str, remedy: str) -> None:
        """Report that something keeps the method from working.

        The log shows it at once, and the run folder keeps it in ``health.json`` for comparisons
        and the report. A warning that was given before, in an interrupted run for example, is not
        repeated.

        Args:
            name: A few words that name the problem, the same in every run that has it.
            sentence: What was measured and what it means, as a whole sentence.
            remedy: What to change, as a whole sentence.
        """
        symptom = Symptom(self._prefix + name, sentence, remedy)
        if self.health.get(symptom.name) == symptom:
            return
        self._health[symptom.name] = symptom
        self.progress.note(f"warning: {symptom}")
        if self.folder is not None and self.devices.is_main:
            save_health(self.folder.health, self._health.values(), self.folder.mark)

    @property
    def health(self) -> dict[str, Symptom]:
        """What the run has warned about so far, before an interruption too, by name."""
        if self.folder is not None:
            found = load_health(self.folder.health, self.folder.mark)
            self._health.update({symptom.name: symptom for symptom in found})
        return self._health

    def nested(self, name: str, *, data: BiasedDataset | None = None, last: bool = True) -> "Run":
        """This run for a whole method inside another one, whose stages get names of their own.

        Args:
            name: Put before the names of all its stages, as in ``inner/biased``.
            data: Other data, such as a subset; this run's if not given.
            last: Whether the run ends with that method's final training. It then trains as it
                would alone, with the same seeds. If not, its final training is one stage among
                others, and draws otherwise than stages of the same name.
        """
        child = copy.copy(self)
        child.data = self.data if data is None else data
        child._prefix, child._last = f"{self._prefix}{name}/", self._last and last
        if not last:
            child._seed_prefix = f"{self._seed_prefix}{name}/"
        return child

    def seed(self, *purpose: str | int) -> int:
        """A seed for one purpose of the stage at hand, see ``crossbias.seeds.seed_for``."""
        return seed_for(self.config.seed, self._seed_name, *purpose)

    @property
    def steps(self) -> int:
        """Updates in a training of the configured length on this run's data.

        Where a small rest joins the batch before it, an epoch takes one less.
        """
        size = self.config.epoch_size or len(self.data)
        epoch_steps = len(batches(torch.arange(size), self.config.batch_size))
        return self.config.steps or self.config.epochs * epoch_steps

    def preview(self, *, shake: bool = False) -> Output:
        """What a fresh network gives for the first batch, to refuse one that cannot serve.

        Args:
            shake: Make its constant weights random, so that a normalization shows: see
                ``crossbias.networks.trace.shaken``.
        """
        with global_randomness_kept(self.device):
            network = self.make_network().to(self.device)
        network = shaken(network) if shake else network
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
            number: Number of the step, which seeds their augmentation.
        """
        seed = self.seed("fetch", number, self.devices.rank)
        return self.loader(self.data).fetch(index, augment=self.augmentation(), seed=seed)

    def score(self, network: Network, function: Callable[[Batch, Output], Tensor]) -> Tensor:
        """A number or a tensor for each row of the full training set, from one pass over the data.

        Args:
            network: Put into evaluation mode for the pass; batches come without augmentation.
            function: ``(B, *shape)`` from a batch and the network's output.

        Returns:
            ``(full_size, *shape)`` float32 on the device; zero for rows that are not in this
            run's data.
        """
        table = torch.zeros(0, device=self.device)
        for batch, output in self._outputs(network, self.data):
            values = function(batch, output).float()
            if not len(table):
                table = torch.zeros(self.data.full_size, *values.shape[1:], device=self.device)
            table[batch.index] = values
        return self.devices.sum(table)

    def validate(self, network: Network) -> dict[str, float] | None:
        """Accuracies on the validation data, those by group where its bias is known, and loss."""
        data = self.validation
        if data is None:
            return None
        sizes = {"num_classes": data.num_classes, "num_biases": data.num_biases}
        counts = torch.zeros((), dtype=torch.int64, device=self.device)
        loss = torch.zeros((), device=self.device)
        for batch, output in self._outputs(network, data, whole=True):
            right = output.logits.argmax(1) == batch.target
            counts = counts + count_right(batch.target, batch.bias, right, **sizes)
            loss = loss + F.cross_entropy(output.logits.float(), batch.target, reduction="sum")
        counts, alignment = self.devices.sum(counts).cpu(), self.data.alignment()
        cells = Cells.from_table(
            *(counts[..., 1], counts.sum(2)),
            alignment=alignment,
            classes=data.classes,
            biases=data.values[data.bias] if data.bias else (),
        )
        metrics = Metrics.from_cells(cells, alignment)
        return metrics.summary() | {"cross_entropy": float(self.devices.sum(loss)) / len(data)}

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
        return self.asked_to_stop_now()

    def asked_to_stop_now(self) -> bool:
        """Whether to stop, where all processes are at the same place."""
        return self.devices.any(self.interrupts.requested is not None)

    def batches(self, size: int | None = None) -> Iterator[Batch]:
        """The data in order, without augmentation; each process has its share.

        Args:
            size: Samples of one process in a batch; as many as a batch of training if not given.
        """
        return self._batches(self.data, size or self.config.batch_size)

    def _batches(self, data: BiasedDataset, size: int, *, whole: bool = False) -> Iterator[Batch]:
        cut = batches(torch.arange(len(data)), size * self.devices.world)
        for batch in self.loader(data).batches(cut):
            if self.devices.world == 1 and self.interrupts.requested and not whole:
                raise Interrupted(f"stopped on request between two trainings; {self._remedy()}")
            yield batch

    def _outputs(
        self, network: Network, data: BiasedDataset, *, whole: bool = False
    ) -> Iterator[tuple[Batch, Output]]:
        """Batches and outputs of one pass in evaluation mode, this process's share of them.

        A request to stop ends the pass unless it has to be whole: a training that has to save the
        epoch before needs its validation.
        """
        found = self._batches(data, self.config.batch_size, whole=whole)
        return evaluation_pass(unwrapped(network), found, self.devices.autocast)

    def _placed(self, network: nn.Module | Recipe | Callable[[], nn.Module] | None) -> nn.Module:
        """A network on the device, its weights drawn from the run's seed for this purpose."""
        purpose = ("network", self._seed_name, len(self.optimizers))
        with global_randomness_kept(self.device):
            seed_global(seed_for(self.config.seed, *purpose), self.device)
            module = self.make_network() if network is None else self._made(network)
            module = module.to(self.device)
        settle_layout(module, self.device, self.data.inputs.shape[1:])
        return module

    def _made(self, network: nn.Module | Recipe | Callable[[], nn.Module]) -> nn.Module:
        if isinstance(network, Recipe):
            shape = self.data.inputs.shape[1:]
            return network.build(num_classes=self.data.num_classes, shape=shape)
        if not isinstance(network, nn.Module):
            return network()
        copied = copy.deepcopy(network)
        if network is self.network and self.fresh:
            redraw(copied)
        return copied

    def _remedy(self) -> str:
        """How to go on after a stop."""
        if self.folder is None:
            return "nothing is saved, since the run has no folder"
        return f"what is finished is saved; continue with: {self.folder.resume_command()}"

    def _clip(self, optimizer: Optimizer) -> None:
        """Limit the gradient's norm by the configuration that the network was built with."""
        config = next(config for built, config in self.optimizers if built is optimizer)
        if config.gradient_clip is not None:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            nn.utils.clip_grad_norm_(parameters, config.gradient_clip)

    def _state_of(self, stage: str) -> dict[str, object] | None:
        """The saved state of a training that was finished before an interruption."""
        assert self.folder is not None
        saved = self.folder.load_stage(f"{stage}.state")
        return None if saved is None else _as_kind(saved, dict, f"{stage}.state")


def _is_finite(value: Tensor) -> bool:
    numbers = value.dtype != torch.bool and not value.is_complex()
    return numbers and bool(value.isfinite().all())


def _as_kind(value: Any, kind: type[_Kind], stage: str) -> _Kind:
    """What a stage kept, if it is what such a stage keeps."""
    if not isinstance(value, kind):
        raise CrossbiasError(
            f"the stage {stage!r} holds a {type(value).__name__}, not a {kind.__name__}; delete "
            f"its file and resume"
        )
    return value

"""The epoch loop: steps, validation, selection, checkpoints."""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from crossbias.data.order import balanced_weights, batches, epoch_order
from crossbias.errors import CrossbiasError, Diverged, Interrupted
from crossbias.formatting import numbers_in_words
from crossbias.networks.network import has_batch_norm
from crossbias.runs.folder import RunFolder
from crossbias.seeds import seed_global
from crossbias.train.accumulation import StepInParts, check_parts, has_mean_loss
from crossbias.train.checkpoint import (
    absurd_weights,
    check_shapes,
    load_checkpoint,
    packed,
    restore,
    save_checkpoint,
)
from crossbias.train.checkpoint_rhythm import CheckpointRhythm
from crossbias.train.data_symptoms import validation_symptoms
from crossbias.train.graph import Graphed
from crossbias.train.meter import Meter, Pace
from crossbias.train.method import Method
from crossbias.train.optimizers import is_capturable, learning_rate, set_learning_rate
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run

_LOOK_SECONDS = 0.5  # how often the host looks at the losses, which waits for the device


class Training:
    """One training of one method on a run's data, from its checkpoint if there is one.

    Args:
        run: The run for which ``method`` has built its networks. Its ``stage_name`` names the
            stage in the log and in the folder.
        method: What is trained.
        final: Whether the run ends with this training: the selection rule concerns it.
        epochs: Length instead of the configured one, if given.
        steps: Length in updates instead of epochs; the last epoch is cut short.
        weights: What ``epoch_order`` takes, over the full training set; if not given, what the
            configuration's ``sampling`` says.
    """

    def __init__(
        self,
        run: "Run",
        method: Method,
        *,
        final: bool,
        epochs: int | None,
        steps: int | None,
        weights: Tensor | None,
    ) -> None:
        self.run, self.method, self.name, self.final = run, method, run.stage_name, final
        weights = balanced_weights(run.data, run.config.sampling) if weights is None else weights
        self.weights = None if weights is None else weights.cpu()[run.data.index]
        self.loader = run.loader(run.data)
        self.augment = run.augmentation()
        self.minimum = _minimum_batch(run, method)
        self.parts = _parts(run, method)
        self.steps = steps or (None if epochs else run.config.steps) or math.inf
        self.epoch_steps = len(self._cut(0))
        whole = math.ceil(self.steps / self.epoch_steps) if self.steps < math.inf else None
        self.epochs: int = epochs or whole or run.config.epochs
        self.epoch = self.step = 0  # finished epochs, and finished steps of the next one
        self.meter, self.pace = Meter(self.epoch_steps), Pace()
        self.rhythm = CheckpointRhythm()
        self.best: dict[str, Any] | None = None
        self.saved: int | None = None  # finished epochs in the checkpoint
        self.records: list[dict[str, Any]] = []  # what was logged, in this process or before
        self.logged = 0  # lines of the log, of all stages

    def go(self) -> None:
        """Train to the end and keep the network that the selection rule names."""
        self._resume()
        self.run.progress.begin(self.name, self.epochs, self.epoch_steps)
        self.run.trackers.stage(self.name)
        step = self._step()
        while self.epoch < self.epochs:
            self._train_epoch(step)
            self._end_epoch()
        if self.best is not None:
            self.method.network.load_state_dict(self.best["network"])
        if self.run.devices.is_main:
            self._examine()

    def _step(self) -> Callable[[Batch], Losses]:
        """The method's step, replayed as a CUDA graph if it can be."""
        step: Callable[[Batch], Losses] = self.parts or self.method.step
        capturable = all(is_capturable(config) for _, config in self.run.optimizers)
        if not (self.run.devices.uses_graphs and self.method.capturable and capturable):
            return step
        graphed = Graphed(lambda *batch: step(Batch(*batch)), "steps", self.run.progress.note)
        return lambda batch: graphed(*batch)

    def _examine(self) -> None:
        """Let the method look at its log, and see whether validation told epochs apart."""
        if len(self.records) < self.epochs:
            return  # lines of the log were lost, which health.json says; the others may mislead
        self.method.examine([record["losses"] for record in self.records])
        validations = [found for record in self.records if (found := record["validation"])]
        rule = self.run.config.selection
        if self.final and rule != "last":
            for symptom in validation_symptoms([_value(found, rule) for found in validations]):
                self.run.warn(*symptom)

    def _train_epoch(self, step: Callable[[Batch], Losses]) -> None:
        run = self.run
        for optimizer, config in run.optimizers:
            set_learning_rate(optimizer, learning_rate(config, self.epoch, self.epochs), run.device)
        set_training(self.method)
        if self.step == 0:
            self.method.begin_epoch()
        self.pace.start()
        looked, cut = time.monotonic(), self._cut(self.epoch)
        for batch in self.loader.batches(
            cut, augment=self.augment, seed=self._seed("augment"), start=self.step
        ):
            seed_global(self._seed("dropout", self.step, run.devices.rank), run.device)
            total = len(cut[self.step])  # of all processes; the last may be smaller
            if self.parts is not None:
                self.parts.total = total
            self.meter.add(step(batch))
            self.pace.samples += total
            self.step += 1
            if time.monotonic() - looked > _LOOK_SECONDS:
                self._look()
                looked = time.monotonic()
            if run.asked_to_stop(self.step):
                self._stop()

    def _end_epoch(self) -> None:
        self._check_finite()
        self._check_weights()
        losses = self.meter.means()  # waits for the device, so that the rate below is true
        rate = self.pace.rate
        losses |= self.method.end_epoch()
        seconds = self.pace.seconds
        self.epoch += 1
        due = self.epoch % self.run.config.validation_interval == 0 or self.epoch == self.epochs
        validation = self.run.validate(self.method.network) if due else None
        record = {
            "stage": self.name,
            "epoch": self.epoch,
            "step": (self.epoch - 1) * self.epoch_steps + self.step,
            "seconds": round(seconds, 3),
            "samples_per_second": round(rate, 1),
            "lr": learning_rate(self.run.optimizers[0][1], self.epoch - 1, self.epochs),
            "losses": losses,
            "validation": validation,
        }
        self.records.append(record)
        self.step, self.meter, self.pace = 0, Meter(self.epoch_steps), Pace()
        self._keep_best(validation)
        if self.run.folder is not None and self.run.devices.is_main:
            self.run.folder.append(record)
            self.logged += 1
        if self.rhythm.is_due() or self.epoch == self.epochs:
            self._save()
        self.run.progress.end_epoch(record)
        self.run.trackers.epoch(record)
        if self.epoch < self.epochs and self.run.asked_to_stop_now():
            self._stop()

    def _look(self) -> None:
        """Tell how it goes; with several processes only the end of an epoch judges the losses."""
        if self.run.devices.world == 1:
            self._check_finite()
        self.run.progress.advance(self.epoch, self.step, self.meter.means(), self.pace.rate)

    def _check_finite(self) -> None:
        bad = self.meter.first_bad_step()
        if not self.run.devices.any(bad is not None):
            return
        where, losses = bad or (self.step, {})
        raise self._diverged(
            f"loss not finite at step {where + 1} of epoch {self.epoch + 1}, stage {self.name!r} "
            f"({numbers_in_words(losses)})"
        )

    def _check_weights(self) -> None:
        """Refuse weights that no training can recover from, before they are kept.

        The loss of the last update does not show them: it was computed before.
        """
        bad = absurd_weights(self.method.state())
        if self.run.devices.any(bad is not None):
            name, size = bad or ("another process", math.nan)
            raise self._diverged(
                f"weights of {name} reach {size:g} after epoch {self.epoch + 1}, stage "
                f"{self.name!r}"
            )

    def _diverged(self, what: str) -> Diverged:
        folder = self.run.folder
        saved = folder is not None and folder.checkpoint.exists()
        epoch = f", of epoch {self.saved}," if self.saved else ""
        return Diverged(
            f"{self.method!r} diverged: {what}; "
            + (f"the last good checkpoint{epoch} is {folder.checkpoint}" if folder and saved else
               "there is no checkpoint yet")
            + "; try a lower lr or gradient_clip"
        )  # fmt: skip

    def _keep_best(self, validation: dict[str, float] | None) -> None:
        """The selection rule concerns the final training; other stages keep their last network."""
        rule = self.run.config.selection
        if rule == "last" or not self.final or validation is None:
            return
        value = _value(validation, rule)
        if self.best is None or value > self.best["value"]:
            state = self.method.network.state_dict()
            copied = {name: tensor.detach().cpu().clone() for name, tensor in state.items()}
            self.best = {"value": value, "epoch": self.epoch, "network": copied}

    def _stop(self) -> None:
        """Save, also in mid-epoch, unless losses or weights went bad, and leave."""
        self._check_finite()
        self._check_weights()
        self._save()
        folder = self.run.folder
        step = f"step {self.step} of epoch {self.epoch + 1}" if self.step else f"epoch {self.epoch}"
        raise Interrupted(
            f"stopped on request after {step}, stage {self.name!r}; "
            + (f"saved; continue with: {folder.resume_command()}" if folder is not None else
               "nothing is saved, since the run has no folder")
        )  # fmt: skip

    def _save(self) -> None:
        if self.run.folder is not None and self.run.devices.is_main:
            with self.rhythm.writing():
                self._write_checkpoint(self.run.folder)

    def _write_checkpoint(self, folder: RunFolder) -> None:
        stages = folder.hashes_of_stages()
        stages.pop(f"{self.name}.state", None)  # of an earlier training, whose file was deleted
        content = {
            "method": repr(self.method),
            "data": self.run.data.hash,
            "identity": folder.identity,
            "stages": stages,
            "stage": self.name,
            "epoch": self.epoch,
            "step": self.step,
            "epoch_steps": self.epoch_steps,
            "meter": self.meter.state(),
            "pace": (self.pace.seconds, self.pace.samples) if self.step else (0.0, 0),
            "logged": self.logged,
            "best": self.best,
            "state": packed(self.method.state()),
        }
        folder.check_writer()
        save_checkpoint(folder.checkpoint, content)
        self.saved = self.epoch

    def _resume(self) -> None:
        folder, saved = self.run.folder, None
        if folder is None:
            return
        if folder.checkpoint.exists():
            saved = load_checkpoint(folder.checkpoint)
            _check_before(saved, folder, at=self.name)
            if saved["stage"] == self.name:
                self._restore(saved, str(folder.checkpoint))
        if self.run.devices.is_main:
            self._resume_log(folder, saved)

    def _resume_log(self, folder: RunFolder, saved: dict[str, Any] | None) -> None:
        """Take up the log where the checkpoint was written, and say if it lacks epochs."""
        kept = folder.trim_log(self.name, self.epoch)
        self.records = [record for record in kept if record["stage"] == self.name]
        self.logged, before = len(kept), 0 if saved is None else saved["logged"]
        if self.logged < before:
            self.run.warn(
                "damaged log",
                f"{before - self.logged} of {before} lines of log.jsonl were damaged or lost when "
                f"the run was resumed.",
                "Curves and times lack these epochs; the results do not depend on them.",
            )

    def _restore(self, saved: dict[str, Any], path: str) -> None:
        for what, own in (("method", repr(self.method)), ("data", self.run.data.hash)):
            if saved[what] != own:
                raise CrossbiasError(
                    f"{path} is of another {what}: {saved[what]} there, {own} here"
                )
        if saved["epoch_steps"] != self.epoch_steps:
            raise CrossbiasError(
                f"{path} is of a training with {saved['epoch_steps']} steps in an epoch, here they "
                f"are {self.epoch_steps}: the number of processes decides whether a small rest of "
                f"an epoch is a batch of its own; resume with as many processes as before"
            )
        if not (0 <= saved["epoch"] <= self.epochs and 0 <= saved["step"] <= self.epoch_steps):
            raise CrossbiasError(
                f"{path} is damaged: it is of step {saved['step']} after epoch {saved['epoch']}, "
                f"but the stage has {self.epochs} epochs of {self.epoch_steps} steps; delete it "
                f"and resume, which trains this stage again from its start"
            )
        restore(self.method.state(), saved["state"], path)
        if saved["best"] is not None:
            check_shapes(self.method.network, saved["best"]["network"], f"{path}: best network")
        self.epoch, self.step, self.best = saved["epoch"], saved["step"], saved["best"]
        self.saved = self.epoch
        if self.step:  # what an epoch prepares and no checkpoint holds is prepared again
            set_training(self.method)
            self.method.begin_epoch()
            restore(self.method.state(), saved["state"], path)
        self.meter.restore(saved["meter"], self.run.device)
        self.pace = Pace(*saved["pace"])
        self.run.progress.note(f"resuming {self.name} after epoch {self.epoch}, step {self.step}")

    def _cut(self, epoch: int) -> list[Tensor]:
        seed = self.run.seed()
        size = self.run.config.epoch_size
        order = epoch_order(len(self.run.data), epoch, seed, self.weights, size=size)
        cut = batches(order, self.run.config.batch_size, self.minimum)
        left = self.steps - epoch * len(cut)
        return cut if left >= len(cut) else cut[: int(left)]

    def _seed(self, *purpose: str | int) -> int:
        return self.run.seed(self.epoch, *purpose)


def _check_before(saved: dict[str, Any], folder: RunFolder, *, at: str) -> None:
    """Refuse a checkpoint of another configuration, or after other stages than the folder has."""
    if saved["identity"] != folder.identity:
        raise folder.changed(f"{folder.checkpoint} was written")
    there = folder.hashes_of_stages()
    for name, known in saved["stages"].items():
        # A stage before this one that is missing is about to be trained again.
        if there.get(name, known if saved["stage"] != at else None) != known:
            raise CrossbiasError(
                f"{folder.checkpoint} was written after another stage {name!r} than the one in "
                f"{folder.stages}; restore that, or delete the checkpoint and resume"
            )


def _value(validation: dict[str, float], rule: str) -> float:
    """The number by which a selection rule judges an epoch; the highest is best."""
    if rule == "validation-loss":
        loss = validation["cross_entropy"]
        return -math.inf if math.isnan(loss) else -loss
    return validation["worst_group" if rule == "validation-worst-group" else "accuracy"]


def set_training(method: Method) -> None:
    """Training mode for all networks of a method, but for layers whose weights are frozen."""
    for part in method.state().values():
        if not isinstance(part, nn.Module):
            continue
        part.train()
        for module in part.modules():
            parameters = list(module.parameters())
            if parameters and not any(parameter.requires_grad for parameter in parameters):
                module.eval()


def _parts(run: "Run", method: Method) -> StepInParts | None:
    """The step in parts, where one is asked for or processes may have shares of other sizes."""
    if run.config.accumulate > 1:
        check_parts(method)
    several = run.config.accumulate > 1 or run.devices.world > 1
    return StepInParts(method, run.config.accumulate) if several and has_mean_loss(method) else None


def _minimum_batch(run: "Run", method: Method) -> int:
    """The smallest batch the method and its networks can use; refused where it cannot be had."""
    networks = [part for part in method.state().values() if isinstance(part, nn.Module)]
    statistics = any(has_batch_norm(network) for network in networks)
    minimum = max(method.minimum_batch, 2 if statistics else 1) * run.devices.world
    minimum *= run.config.accumulate if statistics else 1  # each part has statistics of its own
    reason = "batch normalization" if method.minimum_batch < 2 else repr(method)
    if run.config.batch_size < minimum:
        raise CrossbiasError(
            f"batch_size {run.config.batch_size} is too small: {reason} needs at least {minimum}"
        )
    if len(run.data) < minimum:
        raise CrossbiasError(
            f"{run.data.name} has {len(run.data)} training samples: {reason} needs {minimum}"
        )
    return minimum

"""fit: train a method on data, in one call."""

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from crossbias.data.dataset import BiasedDataset, check_finite
from crossbias.defaults import (
    cached_backbone,
    is_own,
    is_pretrained,
    network_for,
    normalizes_batches,
    training_for,
)
from crossbias.errors import CrossbiasError
from crossbias.formatting import setting, settings
from crossbias.networks import Network, Recipe, as_network
from crossbias.networks.fresh import looks_trained
from crossbias.parameters import validated
from crossbias.progress import Progress, shown_progress
from crossbias.runs.config_file import read_config, write_config
from crossbias.runs.folder import RunFolder
from crossbias.runs.writer import LOCK_FILES
from crossbias.tracking.trackers import Trackers, check_trackers
from crossbias.train.accumulation import check_parts
from crossbias.train.config import TrainConfig
from crossbias.train.environment import differences, same_threads
from crossbias.train.evaluation import alignments_of
from crossbias.train.header import header_of
from crossbias.train.interrupts import Interrupts
from crossbias.train.method import Method
from crossbias.train.record import (
    check_same_run,
    identity_of,
    names_code,
    record_of,
    supervision_of,
    with_resume,
)
from crossbias.train.result import Result
from crossbias.train.trial import check_network

if TYPE_CHECKING:
    from crossbias.train.run import Run


def fit(
    method: Method,
    train: BiasedDataset,
    validation: BiasedDataset | None = None,
    *,
    network: Network | Recipe | nn.Module | str | None = None,
    config: TrainConfig | None = None,
    fresh: bool | None = None,
    folder: Path | str | None = None,
    resume: bool = False,
    progress: Progress | bool = True,
    log: Sequence[str] = (),
) -> Result:
    """Train a method. The test split has no place here; give it to ``Result.evaluate``.

    Args:
        method: What to train, such as ``EnD(alpha=1.0, beta=1.0)``.
        train: The training data.
        validation: Data for validation and selection.
        network: The classifier: a torch model (copied, never changed), a name such as
            ``resnet18``, or a recipe. If not given, one is chosen (``crossbias.defaults``).
        config: How to train. If not given, and the data is your own, epochs, learning rate and
            augmentation are chosen by the size of the data, the device and the network; the
            header says what was chosen.
        fresh: Whether every network that the method builds from a torch model starts with new
            random weights, its own ones shuffled in an order that the seed decides, or as a copy
            of the model. If not given, a model that has not been trained gets new weights, and a
            trained one is copied. For the same run again, call ``torch.manual_seed`` before you
            make the model.
        folder: Where to keep the run; nothing is written if not given.
        resume: Continue the unfinished run in ``folder``.
        progress: Whether to show a header and progress on standard error, or an object that
            receives the reports instead.
        log: Where to log the run live: ``tensorboard``, ``wandb``, ``mlflow``, or several. A
            resumed run continues the logs that it was started with.

    Returns:
        The trained network and its metrics on the validation data.
    """
    if isinstance(progress, bool):
        progress = shown_progress(quiet=not progress)
    network, config, remarks = _completed(train, network, config)
    return train_run(
        method, train, validation, network=network, config=config, fresh=fresh, folder=folder,
        resume=resume, progress=progress, remarks=remarks, log=log,
    )  # fmt: skip


def train_run(
    method: Method,
    train: BiasedDataset,
    validation: BiasedDataset | None,
    *,
    network: Network | Recipe | nn.Module | str,
    config: TrainConfig | None = None,
    fresh: bool | None = None,
    folder: Path | str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    remarks: Sequence[str] = (),
    log: Sequence[str] = (),
    tests: Sequence[BiasedDataset] = (),
) -> Result:
    """Do what ``fit`` does, and judge the network on test data before the run is finished.

    ``remarks`` are lines that end the header.
    """
    from crossbias.train.rehearsal import rehearse  # these two bring Fabric
    from crossbias.train.run import Run

    config = config or TrainConfig()
    recipe = _as_recipe(network, train)
    _check(method, train, validation, config)
    check_trackers(log, folder)
    with Interrupts() as interrupts:
        run = Run(
            train, network=recipe, config=config, validation=validation, fresh=fresh,
            progress=progress, interrupts=interrupts,
        )  # fmt: skip
        record = record_of(
            method, train, validation, network=recipe, fresh=run.fresh, config=config,
            device=run.device,
        )  # fmt: skip
        check_network(run)
        if not resume:
            rehearse(method, run)
        header = [*header_of(run, record), *remarks]
        run.folder = _open(folder, record, resume, run.devices.is_main)
        run.progress.header(header)
        _note_differences(run, record)
        if run.devices.is_main:
            run.trackers = Trackers(log, folder=run.folder, config=record, note=run.progress.note)
        trained = _trained(method, run, record, new=not resume)
        written = run.folder if run.devices.is_main else None
        result = Result(trained, {}, written, record, alignments_of(train), trackers=run.trackers)
        with result.stoppable(interrupts.requested):
            result.keep_model(train)
            if validation is not None:
                result.evaluate(validation)
                for symptom in result.outcome(validation, run.plain):
                    run.warn(*symptom)
            result.health = tuple(run.health.values())
            if tests:
                result.evaluate(*tests)
            result.finish()
    return result


def _trained(method: Method, run: "Run", record: dict[str, Any], *, new: bool) -> Network:
    """Train in the run's folder; let others have it if the training fails."""
    kept = nullcontext() if run.folder is None else run.folder.released_on_error()
    with kept, same_threads(record["environment"]):
        try:
            with run.trackers.ended_on_error():
                return method.fit(run)
        except Exception:
            if run.devices.is_main and new:
                _forget_if_unused(run.folder)
            raise
        finally:
            run.progress.close()


def _note_differences(run: "Run", record: dict[str, Any]) -> None:
    """Say what about a resume can change the last bits of the result."""
    for resume in record.get("resumes", [])[-1:]:
        if found := differences(record["environment"], resume["environment"]):
            run.progress.note(
                f"the run was started with {'; '.join(found)}: its result may differ in the last "
                f"bits from that of a run that was never stopped"
            )


def _completed(
    train: BiasedDataset,
    network: Network | Recipe | nn.Module | str | None,
    config: TrainConfig | None,
) -> tuple[Network | Recipe, TrainConfig, list[str]]:
    """Network and configuration, those not given chosen for the data, and what was chosen."""
    from crossbias.train.devices import find_device  # brings Fabric

    shape, chosen = train.inputs.shape[1:], []
    if network is None:
        options = network_for(shape, backbone=cached_backbone())
        chosen.append(f"network {setting(options)}")
        network = Recipe(options.pop("name"), options)
    network = _as_recipe(network, train)
    if config is None and is_own(train):
        trained = is_pretrained(network) if isinstance(network, Recipe) else looks_trained(network)
        gpu, given = find_device("auto").type != "cpu", {"augment": ()} if train.augment else {}
        gently = trained and not normalizes_batches(network, shape)
        fields = training_for(
            len(train), shape, gpu=gpu, pretrained=trained, gently=gently, given=given
        )
        config = TrainConfig(**fields)
        chosen.append(settings(fields))
    remarks = (
        f"chosen    {'; '.join(chosen)}; pass network= and config=TrainConfig(...) to change it"
    )
    return network, config or TrainConfig(), [remarks] if chosen else []


def _as_recipe(
    network: Network | Recipe | nn.Module | str, train: BiasedDataset
) -> Network | Recipe:
    if isinstance(network, str):
        return Recipe(network)
    if isinstance(network, Recipe):
        return network
    return as_network(network, shape=train.inputs.shape[1:])


def _check(
    method: Method, train: BiasedDataset, validation: BiasedDataset | None, config: TrainConfig
) -> None:
    """Refuse what cannot work, before anything is trained or written."""
    given: Any = method
    if not isinstance(given, Method):
        made = f"; crossbias.create({given!r}) makes one" if isinstance(given, str) else ""
        raise CrossbiasError(f"fit takes a method such as PGD(), got {given!r}{made}")
    given = config
    if not isinstance(given, TrainConfig):
        raise CrossbiasError(f"fit takes a config such as TrainConfig(epochs=5), got {given!r}")
    _check_hyperparameters(method)
    if config.accumulate > 1:
        check_parts(method)
    if not len(train):
        raise CrossbiasError(f"{train.name} has no training samples")
    for data in (train, validation):
        if data is not None:
            check_finite(data)
    if supervision_of(method, config) == "bias labels" and not train.has_bias_labels:
        name = type(method).__name__ if method.supervision == "bias labels" else config.sampling
        raise CrossbiasError(
            f"{name} needs bias labels, but {train.name!r} has none; name the attribute that is "
            f"the bias, or use a method that needs none (crossbias list methods)"
        )
    if validation is not None and validation.classes != train.classes:
        raise CrossbiasError(
            f"the validation data has classes {', '.join(validation.classes)}, "
            f"the training data {', '.join(train.classes)}"
        )
    if config.selection == "last":
        return
    if validation is None:
        raise CrossbiasError(f"selection {config.selection!r} needs validation data")
    if config.selection == "validation-worst-group" and not validation.has_bias_labels:
        raise CrossbiasError(
            "selection 'validation-worst-group' needs bias labels in the validation data; "
            "use 'validation-accuracy' or 'last'"
        )


def _check_hyperparameters(method: Method) -> None:
    """Values given in Python, and those of methods inside, as strictly as those of a file."""
    values = method.hyperparameters()
    validated(type(method), values, type(method).__name__)
    for value in values.values():
        if isinstance(value, Method):
            _check_hyperparameters(value)


def _open(
    folder: Path | str | None, record: dict[str, Any], resume: bool, is_main: bool
) -> RunFolder | None:
    if folder is None:
        if resume:
            raise CrossbiasError("there is nothing to resume without a folder")
        return None
    path = Path(folder)
    if not resume:
        opened = RunFolder.create(path, record) if is_main else RunFolder(path)
    else:
        opened = RunFolder.reopen(path, write=is_main)
        with opened.released_on_error():
            saved = read_config(opened.config)
            check_same_run(saved, record, path)
            record |= with_resume(saved, record)
            if is_main:
                write_config(opened.config, record)
    opened.identity = identity_of(record)
    opened.names_code = names_code(record)
    if resume and is_main:
        with opened.released_on_error():
            opened.restore_health()
            opened.check_stages()
    return opened


def _forget_if_unused(folder: RunFolder | None) -> None:
    """Remove the folder of a run that was refused before it did anything."""
    # Written before the first step
    unused = {"config.json", "health.json", "tracking", "tensorboard", *LOCK_FILES}
    if folder is not None and {entry.name for entry in folder.path.iterdir()} <= unused:
        shutil.rmtree(folder.path)

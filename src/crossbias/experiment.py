"""An experiment by names: what a config file or a command line says, and how it is run."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from crossbias.data import BiasedDataset, Source, create_source, find_source
from crossbias.data.dataset import check_finite
from crossbias.data.own.table_source import TableSource
from crossbias.defaults import Chosen
from crossbias.errors import CrossbiasError
from crossbias.launch import launched
from crossbias.networks import Network, Recipe
from crossbias.parameters import closest, convert, parameters_of
from crossbias.progress import Progress
from crossbias.registry import create_method
from crossbias.runs.config_file import read_config
from crossbias.runs.folder import RunFolder
from crossbias.train.config import TrainConfig
from crossbias.train.fit import train_run
from crossbias.train.header import sizes_of
from crossbias.train.result import Result
from crossbias.trained_run import load_run
from crossbias.trust import check_trusted, names_of_code

_TABLES = ("method", "data", "network", "train")
_FOR_ALL = ("name", "seed", "root", "bias", "label_noise", "stylized", "version")
# What a run records of its data, beside its options
_FACTS = ("hashes", "shape", "classes", "values", "aligned", "pixels")

_Splits = tuple[list[BiasedDataset], BiasedDataset | None, BiasedDataset]


@dataclass(frozen=True)
class Experiment:
    """Method, data, network and training, each a flat table of names and values.

    Args:
        method: ``name`` and hyper-parameters.
        data: ``name`` and options; every data set knows ``seed``, ``root``, ``bias``,
            ``label_noise`` and ``stylized``.
        network: ``name`` and options; the data set's own network if left out.
        train: Fields of ``TrainConfig``.
        log: Where runs are logged to, such as ``mlflow``.
        origin: The file that the tables come from. Code that it names is not imported. None where
            the user wrote the tables, or trusts the file.
        typed: Names of code that the user gave beside the file, which are trusted.
    """

    method: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    log: Sequence[str] = ()
    origin: Path | None = None
    typed: frozenset[str] = frozenset()

    @classmethod
    def from_toml(cls, path: Path, *, trust: bool = False) -> "Experiment":
        """An experiment from a file with the tables [method], [data], [network] and [train].

        Before the tables may stand ``log``, a list of where runs are logged to.

        ``trust`` allows that code which the file names is imported.
        """
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise CrossbiasError(f"cannot read {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise CrossbiasError(f"{path} is not TOML: {error}") from error
        log = convert(tables.pop("log", ()), tuple[str, ...], f"log of {path}")
        for name, table in tables.items():
            if name not in _TABLES or not isinstance(table, dict):
                raise CrossbiasError(
                    f"{path} has {name!r}{closest(name, _TABLES)}; "
                    f"its tables may be: {', '.join(f'[{table}]' for table in _TABLES)}"
                )
        return cls(**tables, log=log, origin=None if trust else path)

    @classmethod
    def from_run(cls, folder: Path, *, trust: bool = False) -> "Experiment":
        """The experiment that a run folder holds; ``trust`` as for ``from_toml``."""
        config = read_config(RunFolder(folder).config)
        if config["network"]["name"] is None:
            raise CrossbiasError(
                f"the network of {folder} was made in Python, not by name; continue it there: "
                f"crossbias.fit(..., folder={str(folder)!r}, resume=True)"
            )
        if "planted" in config["data"]:
            raise CrossbiasError(
                f"a bias was planted into the data of {folder} in Python; continue it there: "
                f"crossbias.fit(..., folder={str(folder)!r}, resume=True)"
            )
        origin = None if trust else RunFolder(folder).config
        tables = (config["method"], data_options(config), config["network"], config["train"])
        return cls(*tables, origin=origin)

    def updated(self, **tables: Mapping[str, Any]) -> "Experiment":
        """A copy with values of some tables replaced; another name drops that table's options."""
        merged: dict[str, Any] = {}
        typed = set(self.typed)
        for table, values in tables.items():
            typed.update(names_of_code(table, values))
            old = getattr(self, table)
            same = "name" not in values or values["name"] == old.get("name", values["name"])
            merged[table] = {**old, **values} if same else dict(values)
        return replace(self, **merged, typed=frozenset(typed))

    @cached_property
    def source(self) -> Source:
        """The data source, its options checked. It reads its files once for all splits."""
        if "name" not in self.data:
            raise CrossbiasError("no data set is named; pass --data, or [data] name = in the file")
        self._check_trusted("data")
        kept = {name: value for name, value in self.data.items() if name not in _FOR_ALL}
        if "bias" in self.data and not self._bias_is_attribute():
            kept["bias"] = self.data["bias"]
        source = create_source(self.data["name"], **kept)
        if str(self.data.get("version", source.version)) != str(source.version):
            raise CrossbiasError(
                f"the run has version {self.data['version']} of {source.name}, but this crossbias "
                f"makes version {source.version}; use the one that trained it"
            )
        return source

    def split(self, name: str, progress: Progress | None = None) -> BiasedDataset:
        """One split, with the bias that the experiment names."""
        self.source.progress = progress or self.source.progress
        data = self.source.load(
            name,
            root=self.data.get("root"),
            seed=self._data_seed(),
            label_noise=self.data.get("label_noise", 0.0),
            stylized=self.data.get("stylized"),
        )
        return data.with_bias(self.data["bias"]) if self._bias_is_attribute() else data

    def labels(self, name: str) -> BiasedDataset:
        """One split without its images, which are not read."""
        from crossbias.data.inspect.checking import labels_of

        data = labels_of(self.source, name, root=self.data.get("root"), seed=self._data_seed())
        return data.with_bias(self.data["bias"]) if self._bias_is_attribute() else data

    def files(self, name: str) -> Sequence[Path] | None:
        """The image files behind a split, where there are any."""
        return self.source.files(name, root=self.data.get("root"), seed=self._data_seed())

    def recipe(self) -> Recipe:
        """The network, by default the data set's own."""
        self._check_trusted("network")
        options = {name: value for name, value in self.network.items() if name != "name"}
        return Recipe(self.network.get("name") or self.source.network, options)

    def chosen_recipe(self) -> Recipe:
        """The network of a run; for a person's own images, network and image size are chosen."""
        return self._chosen.recipe if self._chosen else self.recipe()

    def training(self, train: BiasedDataset) -> TrainConfig:
        """How a run trains on this data; for a person's own images, what is not given is chosen."""
        chosen = self._chosen.training(train, self.train) if self._chosen else {}
        return TrainConfig.from_dict({**chosen, **self.train})

    def run(self, out: Path, *, resume: bool = False, progress: Progress | None = None) -> Result:
        """Train, judge on every test split, and leave a finished run folder.

        Without a method this is plain training. Where a person's own images come without a
        network, an image size or training settings, these are chosen (``crossbias.defaults``).
        """
        if self.method and "name" not in self.method:
            raise CrossbiasError(
                "no method is named; pass --method, or [method] name = in the file"
            )
        self._check_trusted("method", "data", "network")
        method = create_method(**(self.method or {"name": "erm"}))
        tests, validation, train = self._read_everywhere(progress)
        chosen = self._chosen
        remarks = [f"test      {sizes_of(*tests)} samples"] if tests else []
        if chosen is not None:
            remarks += chosen.remarks(chosen.training(train, self.train))
        if not self.method:
            remarks.append("no method was named: this is plain training; see --method")
        return train_run(
            method, train, validation, network=self.chosen_recipe(),
            config=self.training(train), folder=out, resume=resume, progress=progress,
            remarks=remarks, log=self.log, tests=tests,
        )  # fmt: skip

    def _read_everywhere(self, progress: Progress | None) -> _Splits:
        """Read the splits; if a launcher started processes, on all of them or on none.

        Without this, a process on a machine without the data would end alone, and the others would
        wait for it until they time out.
        """
        if launched() is None:
            return self._read(progress)
        from crossbias.train.devices import Devices  # brings Fabric

        devices = Devices(TrainConfig.from_dict(self.train))
        return devices.all_or_none(lambda: self._read(progress), "read the data")

    def _read(self, progress: Progress | None) -> _Splits:
        """Test splits, validation and training data."""
        source, _ = self.source, self._chosen  # which gives the source the size of images
        # Test data is read first: a damaged file is found now and not after the training.
        tests = [self.split(name, progress) for name in source.test_splits]
        for test in tests:
            check_finite(test)
        has_validation = "validation" in source.available_splits
        validation = self.split("validation", progress) if has_validation else None
        return tests, validation, self.split("train", progress)

    def _check_trusted(self, *tables: str) -> None:
        if self.origin is not None:
            check_trusted({name: getattr(self, name) for name in tables}, self.origin, self.typed)

    @cached_property
    def _chosen(self) -> Chosen | None:
        """What is chosen for a person's own images; None for other data."""
        from crossbias.train.devices import find_device  # brings Fabric

        device = TrainConfig.from_dict(self.train).device
        if not isinstance(self.source, TableSource):
            return None
        gpu, seed = find_device(device).type != "cpu", self._data_seed()
        return Chosen.of(self.source, data=self.data, network=self.network, gpu=gpu, seed=seed)

    def _bias_is_attribute(self) -> bool:
        """Whether ``bias`` chooses among the data's attributes; else it is the source's option."""
        kind = find_source(self.data["name"])
        return self.data.get("bias") is not None and "bias" not in parameters_of(kind)

    def _data_seed(self) -> int:
        seed: int = convert(self.data.get("seed", 0), int, "seed of the data")
        return seed


def data_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Name and options of the data that ``config.json`` of a run records."""
    return {name: value for name, value in config["data"].items() if name not in _FACTS}


def load_trained(folder: Path, *, trust: bool = False) -> tuple[Experiment, Network]:
    """The experiment and the trained network of a finished run, from its folder alone."""
    return Experiment.from_run(folder, trust=trust), load_run(folder, trust=trust).network

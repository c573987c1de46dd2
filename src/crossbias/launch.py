"""Processes that somebody else started for one training: torchrun, or srun on a Slurm cluster."""

import os
from collections.abc import Mapping
from typing import NamedTuple


class Launch(NamedTuple):
    """The processes of one training.

    Args:
        launcher: The command that started them.
        processes: How many there are.
        nodes: On how many machines.
        rank: The number of this one, from 0.
    """

    launcher: str
    processes: int
    nodes: int
    rank: int

    @property
    def local(self) -> int:
        """How many of them are on this machine."""
        return self.processes // self.nodes


def launched(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """How this process was started as one of several; None if it was started alone.

    A batch job of Slurm that is not started with ``srun`` is alone, also if it has several tasks.

    >>> launched({"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4",
    ...           "RANK": "5"})
    Launch(launcher='torchrun', processes=8, nodes=2, rank=5)
    >>> launched({"SLURM_JOB_NAME": "train", "SLURM_NTASKS": "4"}) is None
    True
    """
    if "TORCHELASTIC_RUN_ID" in environment:
        world, local = (int(environment[name]) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
        return Launch("torchrun", world, world // local, int(environment["RANK"]))
    tasks, nodes = (int(environment.get(name, "1")) for name in ("SLURM_NTASKS", "SLURM_NNODES"))
    if tasks > 1 and "SLURM_PROCID" in environment and "SLURM_STEP_ID" in environment:
        return Launch("srun", tasks, nodes, int(environment["SLURM_PROCID"]))
    return None


def rank() -> int:
    """The number of this process among those that share a training, as launchers set it."""
    found = launched()
    return found.rank if found else int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")))

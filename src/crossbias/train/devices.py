"""Which device a name means, and whether it is there."""

import torch

from crossbias.errors import CrossbiasError


def find_device(name: str) -> torch.device:
    """The device behind ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``.

    >>> find_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    present = ["cpu"]
    present += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    present += ["mps"] if torch.backends.mps.is_available() else []
    wanted = "cuda:0" if name == "cuda" else name
    if wanted not in present:
        raise CrossbiasError(
            f"device {name!r} is not there; this machine has: {', '.join(present)}"
        )
    return torch.device(wanted)


def in_words(device: torch.device) -> str:
    """The device's name, for results."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({torch.get_num_threads()} threads)"

"""Structural damage: parts of a value replaced, deleted or doubled, and bytes of a file changed."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from benchmarks.fire.canary import NAME as CANARY

_SIMPLE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from([CANARY, "", "\x1b[2J", "../..", 10**400, -1, 0, 2**63, "erm", "final"]),
)  # fmt: skip
STRANGE = st.recursive(
    st.one_of(_SIMPLE, st.just({"name": CANARY})),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=4), part, max_size=3)
    ),
    max_leaves=4,
)
"""Any value of JSON, among them names of code."""

SIDES = st.integers(0, 2**31 - 1) | st.sampled_from([1, 2**16, 80_000_000])
"""Heights, widths and lengths that a file may claim."""

_TENSORS: tuple[Callable[[Tensor], Any], ...] = (
    lambda tensor: tensor.flatten()[:-1], lambda tensor: tensor[None],
    lambda tensor: torch.cat([tensor.flatten(), tensor.flatten()]), lambda tensor: tensor[..., :0],
    lambda tensor: tensor.double(), lambda tensor: tensor.long() - 3, lambda tensor: tensor.bool(),
    lambda tensor: tensor.float() * torch.nan, lambda tensor: tensor.float() * 1e30,
    lambda tensor: tensor.sum(), lambda tensor: tensor.tolist(),
)  # fmt: skip
_TENSOR_CHANGES = st.sampled_from(range(len(_TENSORS)))


def mutated(value: Any, data: st.DataObject) -> Any:
    """A value of dictionaries, lists and tensors with one of its parts changed, or it itself."""
    whole = [copy.deepcopy(value)]
    places = list(_places(whole))
    holder, key = places[data.draw(st.integers(0, len(places) - 1))]
    if isinstance(holder[key], Tensor) and holder[key].ndim:
        holder[key] = _TENSORS[data.draw(_TENSOR_CHANGES)](holder[key])
    elif isinstance(holder, dict) and data.draw(st.integers(0, 3)) == 0:
        del holder[key]
    else:
        holder[key] = data.draw(STRANGE)
    return whole[0]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where the parts of a value are: what holds them, and under which key."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
    for key, part in pairs:
        yield value, key
        if isinstance(part, dict | list):
            yield from _places(part)


def broken(content: bytes, data: st.DataObject, *, within: int | None = None) -> bytes:
    """Bytes that were overwritten, inserted or deleted at some places, by default anywhere."""
    found = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(within or len(found), len(found))))
        new = data.draw(st.binary(max_size=6))
        found[at : at + data.draw(st.integers(0, 6))] = new
    return bytes(found)

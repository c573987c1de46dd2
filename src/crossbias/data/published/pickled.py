"""Reading the dictionary in a pickled ``.npy`` file that nobody vouches for.

A pickle is a program for a small machine, which Python's own reader runs with everything that
Python can import. The machine here knows only the instructions that plain values need. It imports
nothing and calls nothing, and the memory it takes is in proportion to the file.
"""

import pickletools
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from crossbias.errors import CrossbiasError

_HEADER: Final = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '\|O', 'fortran_order': False, 'shape': \(\), \} *\n",
    re.DOTALL,
)
"""What ``numpy.save`` writes before the pickle of a single object."""

_VALUES: Final = (
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT",
    "BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
)  # fmt: skip
"""Instructions whose argument is a value."""

_NUMPY: Final = ("numpy.core.multiarray", "numpy._core.multiarray")
_PLAIN: Final = re.compile(r"b1|[iu][1248]|f[48]|[SU][1-9][0-9]{0,3}")
"""Element types whose bytes are numbers or text, whatever the bytes are."""


def read_dictionary(path: Path) -> dict[Any, Any]:
    """Read a dictionary of plain values that was saved with ``numpy.save``.

    Keys are text, bytes or whole numbers. Values are numbers, text, bytes, None, and lists, tuples
    and dictionaries of them; arrays of numpy become lists, and its numbers those of Python.
    """
    try:
        content = path.read_bytes()
        header = _HEADER.match(content)
        if header is None:
            raise ValueError("numpy.save writes a dictionary with another header")
        match _Machine().run(content[header.end() :]):
            case [dict() as found]:
                return found
        raise ValueError("it does not hold a dictionary")
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, TypeError, LookupError) as error:
        # Names in the file are part of the reason: no line breaks, no commands to the terminal.
        reason = "".join(sign if sign.isprintable() else "?" for sign in str(error)[:200])
        raise CrossbiasError(
            f"cannot read {path} safely: {reason}; get the file again from its authors"
        ) from error


@dataclass(frozen=True)
class _Name:
    """Stands for a function or class that the file asks for; nothing is ever looked up."""

    module: str
    name: str

    def __post_init__(self) -> None:
        if not (isinstance(self.module, str) and isinstance(self.name, str)):
            raise ValueError("it asks for something whose names are not text")


@dataclass
class _Kind:
    """Stands for a dtype of numpy."""

    code: str  # such as i8
    order: str = "="

    def build(self, state: Any) -> None:
        """Take the byte order; a state with fields, or of another version, is refused."""
        match state:
            case (3, "<" | ">" | "|" | "=" as order, None, None, None, int(), int(), int()):
                self.order = order
            case _:
                raise ValueError("it has an element type that is not plain")

    def values(self, content: Any) -> list[Any]:
        """The values of an array of this type, from their bytes or, for objects, from a list."""
        if self.code == "O8" and isinstance(content, list):
            return content
        if not (_PLAIN.fullmatch(self.code) and isinstance(content, bytes)):
            raise ValueError("it has an array whose content does not match its element type")
        if self.code.startswith("U"):
            return self._texts(content)
        return list(np.frombuffer(content, np.dtype(f"{self.order}{self.code}")).tolist())

    def _texts(self, content: bytes) -> list[str]:
        """Texts of equal length, padded with zeros; numpy does not check their characters."""
        width = int(self.code[1:])
        text = content.decode("utf-32-be" if self.order == ">" else "utf-32-le")
        if len(text) % width:
            raise ValueError(f"it has an array of texts that are not {width} characters long")
        return [text[at : at + width].rstrip("\0") for at in range(0, len(text), width)]


class _Machine:
    """Runs a pickle. A value that the instructions cannot have made is an error."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        push = self.stack.append
        self.instructions: dict[str, Callable[[Any], object]] = {
            **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda _: None),
            **dict.fromkeys(_VALUES, push),
            **dict.fromkeys(("BINPUT", "LONG_BINPUT"), self._put),
            **dict.fromkeys(("BINGET", "LONG_BINGET"), self._get),
            "MEMOIZE": lambda _: self._put(len(self.memo)),
            "NONE": push,  # its argument is None
            "NEWTRUE": lambda _: push(True),
            "NEWFALSE": lambda _: push(False),
            "EMPTY_DICT": lambda _: push({}),
            "EMPTY_LIST": lambda _: push([]),
            "EMPTY_TUPLE": lambda _: push(()),
            "MARK": lambda _: self.marks.append(len(self.stack)),
            "TUPLE": lambda _: push(tuple(self._popped(self.marks.pop()))),
            "TUPLE1": lambda _: push(tuple(self._popped(-1))),
            "TUPLE2": lambda _: push(tuple(self._popped(-2))),
            "TUPLE3": lambda _: push(tuple(self._popped(-3))),
            "APPEND": lambda _: self._append(self._popped(-1)),
            "APPENDS": lambda _: self._append(self._popped(self.marks.pop())),
            "SETITEM": lambda _: self._set_items(self._popped(-2)),
            "SETITEMS": lambda _: self._set_items(self._popped(self.marks.pop())),
            "GLOBAL": lambda name: push(_Name(*name.split(" ", 1))),
            "STACK_GLOBAL": lambda _: push(_Name(*self._popped(-2))),
            "REDUCE": lambda _: push(_made(*self._popped(-2))),
            "BUILD": lambda _: self._build(self.stack.pop()),
        }

    def run(self, content: bytes) -> Any:
        """The value that the program makes."""
        # Arguments of instructions that are refused here are parsed first, and may cause a warning.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            for instruction, argument, _ in pickletools.genops(content):
                if instruction.name not in self.instructions:
                    raise ValueError(f"it has the instruction {instruction.name}")
                self.instructions[instruction.name](argument)
        return self.stack.pop()

    def _popped(self, start: int) -> list[Any]:
        taken = self.stack[start:]
        if start < 0 and len(taken) != -start:
            raise ValueError("it takes more values than there are")
        del self.stack[start:]
        return taken

    def _put(self, key: int) -> None:
        self.memo[key] = self.stack[-1]

    def _get(self, key: int) -> None:
        if key not in self.memo:
            raise ValueError("it uses a value that it has not stored")
        self.stack.append(self.memo[key])

    def _append(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise ValueError("it appends to what is not a list")
        self.stack[-1].extend(values)

    def _set_items(self, items: list[Any]) -> None:
        keys, values = items[::2], items[1::2]
        # A key of nested tuples is refused, because Python's hash of a deep one overflows.
        if not isinstance(self.stack[-1], dict) or {*map(type, keys)} - {str, bytes, int}:
            raise ValueError("it has a dictionary whose keys are not names or numbers")
        self.stack[-1].update(zip(keys, values, strict=True))

    def _build(self, state: Any) -> None:
        match self.stack[-1], state:
            case _Kind() as kind, _:
                kind.build(state)
            case list([]), (1, () | (int(),) as shape, _Kind() as kind, False, content):
                values = kind.values(content)
                if len(values) != (shape[0] if shape else 1):
                    raise ValueError(f"it has an array of {shape} with {len(values)} values")
                self.stack[-1].extend(values)
            case _:
                raise ValueError("it changes a value that is not an array")


def _made(function: Any, arguments: Any) -> Any:
    """What calling one of the few known functions gives; the function itself is not called.

    An array starts as an empty list, which its state fills.
    """
    match function, arguments:
        case _Name("_codecs", "encode"), (str(text), "latin1"):
            return text.encode("latin1")
        case _Name("numpy", "dtype"), (str(code), _, _):
            return _Kind(code)
        case _Name(module, "scalar"), (_Kind() as kind, bytes(content)) if module in _NUMPY:
            (value,) = kind.values(content)
            return value
        case _Name(module, "_reconstruct"), (_Name("numpy", "ndarray"), (0,), b"b") if (
            module in _NUMPY
        ):
            return []
        case _Name(module, name), _:
            raise ValueError(f"it asks for {module}.{name}")
    raise ValueError("it calls what is not a function")

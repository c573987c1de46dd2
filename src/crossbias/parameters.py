"""Read parameters from a signature, and check and convert values by their annotations.

Methods, networks, data sources and the training configuration state their parameters only in
their signatures. The command line and config files use this module to find and check them.
"""

import difflib
import importlib
import inspect
import math
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from crossbias.errors import CrossbiasError

_OUTER_COMMA = re.compile(r",(?![^()]*\))")  # "flip,jitter(0.1,0.2)" has two parts
_WORDS = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "text",
    type(None): "none",
}


@dataclass(frozen=True)
class Interval:
    """The allowed range of a number. ``open_low`` excludes the lower end."""

    low: float
    high: float
    open_low: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and value <= self.high  # NaN is neither

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"{'greater than' if self.open_low else 'at least'} {self.low:g}"
        return f"in {'(' if self.open_low else '['}{self.low:g}, {self.high:g}]"


NonNegative = Annotated[float, Interval(0, math.inf)]
Positive = Annotated[float, Interval(0, math.inf, open_low=True)]
Fraction = Annotated[float, Interval(0, 1)]
PositiveFraction = Annotated[float, Interval(0, 1, open_low=True)]
Count = Annotated[int, Interval(1, math.inf)]
WholeNumber = Annotated[int, Interval(0, math.inf)]


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The keyword parameters of a class or function, with evaluated annotations.

    >>> def convnet(num_classes: int, *, kernel: int = 7): ...
    >>> {name: p.default for name, p in parameters_of(convnet).items() if name == "kernel"}
    {'kernel': 7}
    """
    try:
        signature = inspect.signature(function, eval_str=True)
    except (TypeError, ValueError) as error:  # some functions that are written in C
        raise CrossbiasError(f"the parameters of {function!r} are not known: {error}") from error
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: p for name, p in signature.parameters.items() if p.kind in kinds}


def validated(
    function: Callable[..., Any], values: Mapping[str, Any], owner: str
) -> dict[str, Any]:
    """Check keyword arguments against a signature and convert text to the annotated type.

    The values come from Python, a config file, or ``NAME=TEXT`` on a command line. ``owner`` is the
    name of the function in error messages, such as ``method 'end'``.
    """
    known, open_ended = parameters_of(function), takes_any_keyword(function)
    for name in values:
        if name not in known and not open_ended:
            raise unknown(f"{owner} has no parameter", name, known, "its parameters are")
    kinds = {name: parameter.annotation for name, parameter in known.items()}
    return {
        name: convert(value, kinds.get(name, Any), f"{name} of {owner}")
        for name, value in values.items()
    }


def takes_any_keyword(function: Callable[..., Any]) -> bool:
    """Whether a function takes ``**keywords`` that its signature does not list."""
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def closest(name: str, known: Iterable[str]) -> str:
    """A hint with the known names closest to a mistyped one; empty if none is close.

    >>> closest("rebais", ["erm", "rebias"])
    " (did you mean 'rebias'?)"
    """
    matches = difflib.get_close_matches(name, list(known), n=2, cutoff=0.6)
    if not matches:
        return ""
    return f" (did you mean {' or '.join(repr(match) for match in matches)}?)"


def unknown(
    lacking: str, name: str, known: Iterable[str], listing: str = "there are", more: str = ""
) -> CrossbiasError:
    """The error about a name that is not among the known ones.

    >>> str(unknown("there is no metric", "overal", ["overall", "aligned"]))
    "there is no metric 'overal' (did you mean 'overall'?); there are: overall, aligned"
    """
    names = ", ".join(known) or "none"
    return CrossbiasError(f"{lacking} {name!r}{closest(name, known)}; {listing}: {names}{more}")


def imported(path: str) -> Any:
    """The object at a path such as ``my_package.module:MyMethod``, from the current folder too.

    >>> imported("collections:OrderedDict")
    <class 'collections.OrderedDict'>
    """
    module_name, _, name = path.partition(":")
    if os.getcwd() not in sys.path:  # where an installed command does not look
        sys.path.append(os.getcwd())
    try:
        return getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise CrossbiasError(
            f"{path!r} cannot be imported ({error}); write it as package.module:Name, "
            f"with the package installed, in the current folder or in PYTHONPATH"
        ) from error


def convert(value: Any, annotation: Any, name: str) -> Any:
    """Convert a value, or its text, to the annotated type and check its range.

    >>> convert("0.5", Fraction, "rho of glyphs")
    0.5
    >>> convert("2", Fraction, "rho of glyphs")
    Traceback (most recent call last):
    crossbias.errors.CrossbiasError: rho of glyphs must be in [0, 1], got 2
    """
    if annotation is inspect.Parameter.empty or annotation is Any:
        return value
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _in_range(convert(value, arguments[0], name), arguments[1:], name, value)
    if origin in (typing.Union, types.UnionType):
        return _one_of(value, arguments, name)
    if origin is Literal:
        return _choice(value, arguments, name)
    if origin is tuple:
        return _sequence(value, arguments[0], name)
    if isinstance(annotation, type):
        return _scalar(value, annotation, name)
    return value


def describe(annotation: Any) -> str:
    """An annotation in words, for error messages.

    >>> describe(float | None), describe(Literal["a", "b"]), describe(tuple[float, ...])
    ('a number or none', "one of 'a', 'b'", 'a list, each entry a number')
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        ranges = [str(extra) for extra in arguments[1:] if isinstance(extra, Interval)]
        return " ".join([describe(arguments[0]), *ranges])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(argument) for argument in arguments)
    if origin is Literal:
        return "one of " + ", ".join(repr(argument) for argument in arguments)
    if origin is tuple:
        return f"a list, each entry {describe(arguments[0])}"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _wrong(value: Any, annotation: Any, name: str) -> CrossbiasError:
    return CrossbiasError(f"{name} must be {describe(annotation)}, got {value!r}")


def _in_range(number: Any, metadata: tuple[Any, ...], name: str, given: Any) -> Any:
    for interval in metadata:
        if isinstance(interval, Interval) and number is not None and number not in interval:
            raise CrossbiasError(f"{name} must be {interval}, got {given}")
    return number


def _one_of(value: Any, annotations: tuple[Any, ...], name: str) -> Any:
    if type(None) in annotations and (value is None or value == "none"):
        return None
    choices = [annotation for annotation in annotations if annotation is not type(None)]
    if len(choices) == 1:
        return convert(value, choices[0], name)
    for annotation in choices:
        try:
            return convert(value, annotation, name)
        except CrossbiasError:
            continue
    raise _wrong(value, Union[tuple(annotations)], name)  # noqa: UP007


def _choice(value: Any, choices: tuple[Any, ...], name: str) -> Any:
    for choice in choices:
        if value == choice or (isinstance(value, str) and value == str(choice)):
            return choice
    raise _wrong(value, Literal[choices], name)


def _sequence(value: Any, annotation: Any, name: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [part for part in _OUTER_COMMA.split(value) if part]
    if not isinstance(value, (list, tuple)):
        raise _wrong(value, tuple[annotation, ...], name)
    return tuple(convert(item, annotation, f"each entry of {name}") for item in value)


def _scalar(value: Any, kind: type, name: str) -> Any:
    if kind is bool and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if (
        kind in (int, float)
        and isinstance(value, (str, int, float))
        and not isinstance(value, bool)
    ):
        try:
            number = kind(value)
        except (ValueError, OverflowError):
            raise _wrong(value, kind, name) from None
        if kind is int and not isinstance(value, str) and number != value:
            raise _wrong(value, kind, name)
        if kind is int and abs(number) >= 2**63:  # no tensor can hold it
            raise CrossbiasError(f"{name} must be less than 2**63, got one that is not")
        return number
    if kind is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise _wrong(value, kind, name)

"""Keyword arguments as hyper-parameters."""

from typing import Literal

import pytest

from crossbias.errors import CrossbiasError
from crossbias.parameters import (
    Count,
    Fraction,
    NonNegative,
    PositiveFraction,
    convert,
    imported,
    validated,
)


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        ("1e-3", float, 0.001),
        (1, float, 1.0),
        ("7", int, 7),
        (7.0, int, 7),
        ("true", bool, True),
        ("False", bool, False),
        ("none", float | None, None),
        ("0.5", float | None, 0.5),
        ("paper", Literal["paper", "released"], "paper"),
        ("2", Literal[1, 2], 2),
        ("0.4,0.8", tuple[float, ...], (0.4, 0.8)),
        ([1, 2], tuple[float, ...], (1.0, 2.0)),
        ("", tuple[float, ...], ()),
        ("text", str, "text"),
        ("0", Fraction, 0.0),
        ("1", PositiveFraction, 1.0),
        ("2", NonNegative | Literal["median"] | tuple[NonNegative, ...], 2.0),
        ("median", NonNegative | Literal["median"] | tuple[NonNegative, ...], "median"),
        ("2,0.5", NonNegative | Literal["median"] | tuple[NonNegative, ...], (2.0, 0.5)),
        ("a", tuple[str, ...] | str, ("a",)),
    ],
)
def test_text_and_values_become_the_annotated_type(value, annotation, expected):
    converted = convert(value, annotation, "it")
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("value", "annotation", "message"),
    [
        ("abc", float, "must be a number, got 'abc'"),
        (True, float, "must be a number, got True"),
        (1.5, int, "must be a whole number, got 1.5"),
        ("1.5", int, "must be a whole number, got '1.5'"),
        ("yes", bool, "must be true or false, got 'yes'"),
        (3, str, "must be text, got 3"),
        ("other", Literal["paper", "released"], "one of 'paper', 'released', got 'other'"),
        (-0.1, NonNegative, "must be at least 0, got -0.1"),
        (float("nan"), NonNegative, "must be at least 0, got nan"),
        ("1.01", Fraction, r"must be in \[0, 1\], got 1.01"),
        (0, PositiveFraction, r"must be in \(0, 1\], got 0"),
        (0, Count, "must be at least 1, got 0"),
        (3, tuple[float, ...], "must be a list, each entry a number, got 3"),
        ("0.1,x", tuple[float, ...], "each entry of it must be a number, got 'x'"),
        ("x", float | None, "must be a number, got 'x'"),
        (-1, NonNegative | Literal["median"], "a number at least 0 or one of 'median', got -1"),
    ],
)
def test_a_wrong_value_is_refused_with_what_was_wanted_and_what_came(value, annotation, message):
    with pytest.raises(CrossbiasError, match=message):
        convert(value, annotation, "it")


def test_an_unknown_keyword_is_answered_with_the_closest_and_all_valid_ones():
    def method(*, alpha: float = 1.0, beta: float = 1.0): ...

    with pytest.raises(CrossbiasError, match=r"no parameter 'alhpa' \(did you mean 'alpha'\?\)"):
        validated(method, {"alhpa": 1}, "method 'm'")
    with pytest.raises(CrossbiasError, match="its parameters are: alpha, beta"):
        validated(method, {"gamma_ray": 1}, "method 'm'")


@pytest.mark.parametrize("path", ["no_such_package:X", "os:no_such_name", ":x"])
def test_a_dotted_path_that_leads_nowhere_says_so(path):
    with pytest.raises(CrossbiasError, match="cannot be imported"):
        imported(path)

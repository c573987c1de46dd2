"""The part of the sample weights of LfF that all samples of a batch share evenly."""

# Measured in docs/studies/ie.md: with two classes it keeps the network from learning the opposite
# of one, with more it takes gains away.
_FOR_TWO = 0.8


def even_share(given: float | None, classes: int) -> float:
    """The part that is given, or what the number of classes asks for.

    With two classes, what a biased network fails on is what the other class looks like.

    >>> even_share(None, 2), even_share(None, 10), even_share(0.5, 2)
    (0.8, 0.0, 0.5)
    """
    return given if given is not None else _FOR_TWO if classes == 2 else 0.0

"""Names of classes, values and methods as a picture can show them."""


def short(name: str, length: int = 18) -> str:
    """A name as a picture can show it: one line, nothing unprintable, not too long.

    >>> short("a very long class name, really"), short("two   words")
    ('a very long class…', 'two words')
    """
    line = " ".join(name.split())
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line
    )
    return shown if len(shown) <= length else shown[: length - 1] + "…"

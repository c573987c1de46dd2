"""Which of a run's splits it is judged by."""

from collections.abc import Iterable


def judged_split(splits: Iterable[str]) -> str | None:
    """``test``, or else the first that is neither trained on nor chosen by; None without one.

    >>> judged_split(["train", "validation", "unseen", "test"]), judged_split(["validation"])
    ('test', None)
    """
    judged = [split for split in splits if split not in ("train", "validation")]
    return "test" if "test" in judged else next(iter(judged), None)

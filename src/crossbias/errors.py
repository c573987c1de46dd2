"""The errors that a person can repair; each names the thing, the value and the remedy."""

from typing import ClassVar


class CrossbiasError(ValueError):
    """A mistake the person at the keyboard can repair; the message says how."""

    exit_code: ClassVar[int] = 2


class Untrusted(CrossbiasError):
    """A file names code to import, and the user has not said that it is trusted."""


class Diverged(CrossbiasError):
    """Training met a loss that is not finite and stopped; earlier checkpoints are whole."""

    exit_code: ClassVar[int] = 1


class Interrupted(CrossbiasError):
    """Training was asked to stop, finished its step and saved; it can be resumed."""

    exit_code: ClassVar[int] = 130

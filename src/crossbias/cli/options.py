"""What several commands share: given options, NAME=VALUE settings, progress, a line of text."""

from typing import Any

from rich.console import Console

from crossbias.errors import CrossbiasError


def say(console: Console, text: str) -> None:
    """Print text as it is."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def given(**values: Any) -> dict[str, Any]:
    """Options that were not given never override anything."""
    return {name: value for name, value in values.items() if value is not None}


def parsed(settings: list[str] | None) -> dict[str, str]:
    """Settings written NAME=VALUE."""
    for setting in settings or []:
        if "=" not in setting:
            raise CrossbiasError(f"a setting is written NAME=VALUE, got {setting!r}")
    pairs = [setting.partition("=") for setting in settings or []]
    return {name.strip(): value.strip() for name, _, value in pairs}

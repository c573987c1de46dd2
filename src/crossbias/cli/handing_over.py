"""``crossbias card`` and ``crossbias export``: documents and files that leave the run folder."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from crossbias.cli import options
from crossbias.cli.printing import say
from crossbias.errors import CrossbiasError
from crossbias.runs.files import write_atomically
from crossbias.trained_run import load_run

PixelType = StrEnum("PixelType", ["float", "uint8"])  # what an exported file takes

Finished = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")]


def card(
    run: Finished,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Markdown file to write.",
            show_default="card.md; with --evidence only the folder",
        ),
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="New folder for the card, the report page, configuration, metrics, predictions, "
            "log and hashes, to hand to an auditor.",
        ),
    ] = None,
) -> None:
    """Write a model card of a finished run, or pack its evidence for an auditor.

    The card has Hugging Face's YAML header with the accuracies, and in Markdown the accuracy in
    every group with intervals, hashes of the data, what the training knew about the bias, how the
    model was chosen, and limits. Read it and add what a run cannot know: purpose and license.

    The folder of --evidence is checked with `sha256sum -c SHA256SUMS`.
    """
    from crossbias.documents import card_of, write_evidence
    from crossbias.runs.read import read_run

    if evidence is not None:
        say(f"wrote {write_evidence(run, evidence)}; check it with: sha256sum -c SHA256SUMS")
    if output is not None or evidence is None:
        path = output or Path("card.md")
        content = card_of(read_run(run)).encode(errors="replace")
        write_atomically(path, lambda file: file.write(content))
        say(f"wrote {path}")


def export(
    run: Finished,
    onnx: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="ONNX file to write. It normalizes images itself; any batch size."
        ),
    ] = None,
    input: Annotated[
        PixelType,
        typer.Option(help="Pixels that the ONNX file takes: float from 0 to 1, or uint8."),
    ] = PixelType.float,
    hub: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="New folder for a model hub: model.safetensors, config.json and the card.",
        ),
    ] = None,
    trust: options.Trust = False,
) -> None:
    """Export the model of a finished run as an ONNX file, or as a folder for a model hub.

    ONNX Runtime must give the same numbers as torch before the file is written. The file carries
    class names, image size and normalization, which `crossbias verify --model` reads.
    `crossbias.load_run` loads the folder.
    """
    from crossbias.export import export_onnx, save_pretrained

    if onnx is None and hub is None:
        raise CrossbiasError("say what to write: --onnx FILE, --hub DIR, or both")
    if onnx is not None:
        pixels: Any = input.value  # a member's value is just a str
        metadata = export_onnx(load_run(run, trust=trust), onnx, pixels=pixels)
        shape = " x ".join(map(str, metadata.shape))
        taken = {"float": ", float from 0 to 1", "uint8": ", uint8", None: ""}[metadata.pixels]
        say(f"wrote {onnx}: takes (batch, {shape}){taken}; gives logits and features")
    if hub is not None:
        say(f"wrote {save_pretrained(run, hub)}")

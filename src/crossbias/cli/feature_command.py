"""``crossbias features``: what a frozen network computes, once for many heads."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from crossbias.cli import options
from crossbias.cli.printing import say
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment
from crossbias.progress import shown_progress


def features(
    out: Annotated[Path, typer.Option(help="New folder for the features.")],
    data: Annotated[
        str | None, typer.Option(help="A name from `crossbias list data`, or folder:PATH.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="A network with trained weights: --set network.pretrained=true."),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Folder of a finished run: its network, on its data.")
    ] = None,
    labels: options.Labels = None,
    target: options.Target = None,
    bias: options.Bias = None,
    cluster: options.Cluster = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="TABLE.NAME=VALUE",
            help="A setting of the data or the network: data.size=224, network.pretrained=true. "
            "May be repeated.",
        ),
    ] = None,
    root: options.Root = None,
    device: options.Device = None,
    trust: options.Trust = False,
    quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Write the features of a frozen network for all splits of a data set.

    The folder is a data set of its own, features:OUT, on which linear heads are trained in seconds.
    Its train.npy is a file for method.features of aflite and repair.
    """
    from crossbias.feature_extraction import features_of_network, features_of_run

    chosen = options.given(
        name=data, labels=labels, target=target, bias=bias, cluster=cluster, root=root
    )
    further, progress = options.settings(set_), shown_progress(quiet=quiet)
    device = device or "auto"
    if (run is None) == (data is None):
        raise CrossbiasError(
            "name either data and a network, --data NAME --network NAME, or a finished run, "
            "--run FOLDER"
        )
    if run is not None:
        if len(chosen) or network is not None or any(further.values()):
            raise CrossbiasError("--run brings its data and network; leave the other options out")
        width = features_of_run(run, out, device=device, trust=trust, progress=progress)
    else:
        experiment = Experiment(
            data=chosen | further["data"],
            network=options.given(name=network) | further["network"],
            train={"device": device},
        )
        width = features_of_network(experiment, out, device=device, progress=progress)
    say(f"wrote {out}: {width} features of every sample")
    say(f"next: crossbias train --data {shlex.quote(f'features:{out}')} --method dfr")

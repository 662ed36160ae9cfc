"""`certcal certify`: from a model and data to evidence and a report."""

import typer

from certcal.cli import options as o
from certcal.cli.evaluate import finish
from certcal.cli.screen import tell

HELP = """Draw the evidence of a smoothed model once, certify it and write the report.

The same command goes on with an interrupted run; with a larger --n it adds draws. Adding draws because of what a report
showed is a further look at the data: divide --alpha and --delta by the number of looks.

[dim]Example:[/dim] certcal certify mine --model resnet110 --weights net.pt --data cifar10 --sigma 0.25

[dim]Again, with what the folder remembers:[/dim] certcal certify mine
"""


def add_to(app: typer.Typer) -> None:
    """Give the verb to the command."""
    app.command("certify", help=HELP)(certify)


def certify(
    run: o.RunName,
    config: o.Config = None,
    model: o.Model = None,
    weights: o.Weights = None,
    mean: o.Mean = None,
    std: o.Std = None,
    classes: o.Classes = None,
    temperature: o.Temperature = None,
    data: o.Data = None,
    split: o.Split = None,
    root: o.Root = None,
    download: o.Download = None,
    limit: o.Limit = None,
    every: o.Every = None,
    resize: o.Resize = None,
    crop: o.Crop = None,
    channels: o.Channels = None,
    sigma: o.Sigma = None,
    n: o.Draws = None,
    n0: o.SelectionDraws = None,
    seed: o.Seed = None,
    stages: o.Stages = None,
    outputs: o.Outputs = None,
    device: o.Device = None,
    precision: o.Precision = None,
    batch_size: o.BatchSize = None,
    fuse: o.Fuse = None,
    compile: o.Compile = None,
    engine: o.Engine = None,
    workers: o.Workers = None,
    ray_address: o.RayAddress = None,
    gpus_per_worker: o.GpusPerWorker = None,
    radii: o.Radii = None,
    alpha: o.Alpha = None,
    delta: o.Delta = None,
    method: o.MethodOption = None,
    population: o.PopulationOption = None,
    n_bins: o.NBins = None,
    approximate: o.Approximations = None,
    paper: o.Paper = None,
    no_figures: o.NoFigures = False,
    json: o.Json = False,
) -> None:
    """Collect evidence into the run folder, then evaluate it."""
    from certcal.runs import RunFolder, certify_run, load_settings

    folder = RunFolder.named(run)
    where = o.engine_of(engine, workers=workers, address=ray_address, gpus=gpus_per_worker)
    settings = load_settings(
        config or (folder.config if folder.config.is_file() else None),
        {
            "model": o.given(
                name=model,
                weights=weights,
                mean=o.numbers("mean", mean, float),
                std=o.numbers("std", std, float),
                temperature=temperature,
                classes=classes,
            ),
            "data": o.given(
                name=data,
                split=split,
                root=root,
                download=download,
                limit=limit,
                every=every,
                resize=resize,
                crop=crop,
                channels=channels,
            ),
            "certify": o.given(
                sigma=sigma,
                n=n,
                n0=n0,
                seed=seed,
                stages=o.numbers("stages", stages, int, "whole numbers"),
                outputs=outputs,
                device=device,
                precision=precision,
                batch_size=batch_size,
                fuse=fuse,
                compile=compile,
            ),
            "evaluate": o.evaluation_options(
                radii=radii,
                alpha=alpha,
                delta=delta,
                method=method,
                population=population,
                n_bins=n_bins,
                approximate=approximate,
                paper=paper,
            ),
        },
    )
    if settings.model.weights is None:
        tell("no --weights: certifying the network as its factory returns it")
    certify_run(folder, settings, engine=where, progress=True)
    tell(f"evidence: {folder.evidence}")
    finish(folder, settings.evaluate, figures=not no_figures, json=json)

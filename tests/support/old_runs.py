"""A run folder as version 0.1.0 wrote it before settings had one declaration each, made from its numbers."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

CONFIG = """# What this run was made with; `certcal certify --config` takes it back.

[model]
name = "small-cnn"

[data]
name = "digits"
split = "test"
download = false
limit = 2
every = 1

[certify]
sigma = 0.25
n = 20
n0 = 5
seed = 0
chunk = 10
outputs = "logits"
precision = "float32"
fuse = false
compile = false

[evaluate]
radii = [0.0, 0.1]
alpha = 0.001
delta = 0.001
method = "cdf-cp"
joint = true
population = "certified"
n_bins = 15
approximations = []
"""
HEADER = {
    "model": "b1adc2cd086bcabe0401e20ed621fedf0fe18eb5f24475b556c5b986210dc442",
    "sigma": 0.25,
    "seed": 0,
    "classes": 10,
    "n0": 5,
    "chunk": 10,
    "precision": "float32 on cpu",
    "looks": 1,
    "stages": [],
    "outputs": "logits",
    "schema": 1,
}
COLUMNS = {
    "index": [4, 9],
    "content": [-8247731096707394803, -5900937818089500422],
    "label": [4, 9],
    "selected": [3, 3],
    "first": [0, 0],
    "stop": [2, 2],
    "votes": [[0, 0, 0, 15, 0, 0, 0, 5, 0, 0], [0, 0, 0, 18, 0, 0, 0, 2, 0, 0]],
    "score_units": [2553209479168, 2533446066176],
    "square_units": [296455881840, 291885782850],
}
FILLED = ({56: 19, 57: 1}, {56: 20})  # cells of the two histograms of 256
# What that version wrote into metrics.json at R = 0.
ROW = {
    "radius": 0.0,
    "inputs": 1,
    "certified": 1,
    "certified_accuracy": 0.0,
    "ece": 0.11520778872072697,
    "certified_ece": 0.558098108118621,
    "joint_ece": 1.0,
    "brier": 0.013272834581919664,
    "certified_brier": 0.3114734982855047,
    "mean_width": 0.5012722681213291,
}


def write_old_run(folder):
    """Leave settings and evidence in a folder, in the form of that version."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONFIG)
    lists = {"votes": pa.list_(pa.int64(), 10), "histogram": pa.list_(pa.int64(), 256)}
    histogram = [[own.get(cell, 0) for cell in range(256)] for own in FILLED]
    columns = {
        name: pa.array(values, lists.get(name, pa.int64()))
        for name, values in (COLUMNS | {"histogram": histogram}).items()
    }
    about = {
        "certcal.evidence": json.dumps(HEADER),
        "certcal.provenance": json.dumps({"certcal": "0.1.0"}),
        "certcal.probe": "null",
        "certcal.whole": "true",
    }
    pq.write_table(pa.table(columns).replace_schema_metadata(about), folder / "evidence.parquet")

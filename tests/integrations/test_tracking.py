"""Results in MLflow, Weights & Biases and TensorBoard, as the tools themselves read them."""

import builtins
import json

import pytest

from command import certcal
from places import ROOT

RADII = (0, 0.1, 3)  # at the last, nothing is certified


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a run of bounds from elsewhere."""
    place = tmp_path_factory.mktemp("desk")
    lines = ["index,label,predicted,radius,confidence,lower,upper,correct,certified"]
    for radius in RADII:
        for one in range(12):
            label, certified = one % 3, radius < 3
            lower, upper = max(0.0, 0.6 - radius), min(1.0, 0.6 + radius)
            lines.append(f"{one},{label},{one % 2},{radius},0.6,{lower},{upper},{label == one % 2},{certified}")
    (place / "bounds.csv").write_text("\n".join(lines))
    words = ["--bounds", "bounds.csv", "--norm", "l2", "--domain", "everywhere", "--alpha", 0, "--no-figures"]
    certcal("evaluate", "mine", *words, cwd=place)
    return place


def wanted(place):
    """What metrics.json says, by the names that are logged."""
    found = json.loads((place / "runs/mine/metrics.json").read_text())
    rows = zip(found["rows"], found["further"], strict=True)
    values = {
        f"{name}/{row['radius']:g}": value
        for row, further in rows
        for name, value in (row | further).items()
        if name != "radius" and value is not None
    }
    assert "certified_ece/0.1" in values
    assert "certified_ece/3" not in values
    assert values["certified/3"] == 0
    return values | {"average_certified_radius": found["average_certified_radius"]}


def log(place, tool, **env):
    out, error = certcal("evaluate", "mine", "--no-figures", "--json", "--log", tool, cwd=place, **env)
    json.loads(out)  # nothing but results on standard output
    return error


def test_tensorboard_reads_every_digit(place):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    assert "tensorboard: runs/mine/tensorboard" in log(place, "tensorboard")
    read = EventAccumulator(str(place / "runs/mine/tensorboard"))
    read.Reload()
    found = {name: make_ndarray(read.Tensors(name)[-1].tensor_proto) for name in read.Tags()["tensors"]}
    words = found.pop("guarantee/text_summary").item().decode()
    assert "expected calibration error" in words
    assert "| evaluate.delta | 0.001 |" in found.pop("settings/text_summary").item().decode()
    assert {name: value.item() for name, value in found.items()} == wanted(place)


@pytest.mark.slow
def test_mlflow_keeps_metrics_settings_words_and_page(place):
    mlflow = pytest.importorskip("mlflow")
    store = f"file:{place}/mlruns"
    told = log(place, "mlflow", MLFLOW_TRACKING_URI=store, MLFLOW_ALLOW_FILE_STORE="true")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        client = mlflow.MlflowClient(store)
        (run,) = client.search_runs(["0"])
        (page,) = client.list_artifacts(run.info.run_id)
        kept = client.download_artifacts(run.info.run_id, page.path, str(place))
    assert f"mlflow: run {run.info.run_id}" in told
    assert run.info.run_name == "mine"
    assert run.data.metrics == wanted(place)
    assert run.data.params["evaluate.delta"] == "0.001"
    assert "expected calibration error" in run.data.tags["mlflow.note.content"]
    with open(kept, "rb") as file:
        assert file.read() == (place / "runs/mine/report.html").read_bytes()


@pytest.mark.slow
def test_wandb_keeps_metrics_settings_and_page_offline(place):
    pytest.importorskip("wandb")
    told = log(place, "wandb", WANDB_MODE="offline", WANDB_DIR=str(place))
    (file,) = place.glob("wandb/offline-run-*/run-*.wandb")
    assert str(file.parent) in told
    found = {one.WhichOneof("record_type"): one for one in wandb_records(file.read_bytes())}
    run = found["run"].run
    assert (run.project, run.display_name) == ("certcal", "mine")
    assert {one.key: one.value_json for one in run.config.update}["evaluate.delta"] == '"0.001"'
    values = {one.nested_key[0]: json.loads(one.value_json) for one in found["history"].history.item}
    assert {name: value for name, value in values.items() if not name.startswith("_")} == wanted(place)
    assert [one.path for one in found["artifact"].artifact.manifest.contents] == ["report.html"]


def wandb_records(data):
    """The records of a .wandb file: behind 7 bytes a LevelDB log, whose blocks of 32 KiB no header crosses."""
    from wandb.proto.wandb_internal_pb2 import Record

    at, whole = 7, b""
    while at + 7 <= len(data):
        room = 2**15 - at % 2**15
        if room < 7:
            at += room
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield Record.FromString(whole)
            whole = b""


def test_a_missing_tool_is_refused_before_any_work(place, monkeypatch):
    real = builtins.__import__
    before = (place / "runs/mine/log.txt").read_text()

    def without(name, *rest):
        if name.startswith("wandb"):
            raise ModuleNotFoundError(f"No module named '{name}'")
        return real(name, *rest)

    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    monkeypatch.setattr(builtins, "__import__", without)
    _, error = certcal("evaluate", "mine", "--log", "wandb", cwd=place, code=2)
    assert "Expected `--log` to be a tool that is installed (pip install 'certcal[wandb]'), but got wandb:" in error
    _, error = certcal("evaluate", "mine", "--log", "notebook", cwd=place, code=2)
    assert "Expected `--log` to be one of 'mlflow', 'wandb', 'tensorboard'" in error
    assert (place / "runs/mine/log.txt").read_text() == before


def test_results_stay_where_a_tool_fails(place):
    pytest.importorskip("tensorboard")
    folder = place / "runs/mine/tensorboard"
    if folder.exists():
        folder.rename(place / "kept")
    folder.write_text("a file where a folder is wanted")
    _, error = certcal(
        "evaluate", "mine", "--radii", "0,0.1", "--no-figures", "--log", "tensorboard", cwd=place, code=1
    )
    assert error.splitlines()[-1].startswith("tensorboard did not take the results: ")
    assert error.splitlines()[-1].endswith("Again with: certcal evaluate runs/mine --log tensorboard")
    assert len(json.loads((place / "runs/mine/metrics.json").read_text())["rows"]) == 2
    folder.unlink()
    certcal("evaluate", "mine", "--radii", "0,0.1,3", "--no-figures", cwd=place)


def test_every_tool_is_an_extra():
    import tomllib

    from certcal.settings import Tracker

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {str(one) for one in Tracker} <= set(extras)

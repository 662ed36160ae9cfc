"""Clusters that cannot be used are refused in a line before any sampling; the command starts and stops one itself."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

# Clusters of these tests have no token, and drivers must not look for one; Ray reads this when it is imported.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
pytest.importorskip("ray", reason="Ray is not installed (the extra `ray`)")

from certcal import CertcalError, InputError, load_evidence
from certcal.cli.app import main
from certcal.cluster import Cluster
from certcal.cluster.session import _named, cluster_folder, connected
from certcal.models import build_model
from certcal.smoothing import collect_evidence
from collecting import assert_same
from ray_models import HERE, SMALL, head
from smoothing_models import small_data, small_model


def refused(text, **options):
    with pytest.raises(CertcalError) as caught:
        collect_evidence(small_model(), small_data(), **SMALL, **options)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # as Python marks what cannot be imported
    refused("pip install 'certcal[ray]'", engine="ray")


def test_an_address_nobody_answers_at(monkeypatch):
    start = time.monotonic()
    refused("Connection refused", engine=Cluster(address="127.0.0.1:1"))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    refused("127.0.0.1:1", engine="ray")
    assert time.monotonic() - start < 5


def greet(server):
    """As another service does: to the line that was left waiting, and to the next one."""
    for _ in range(2):
        line, _ = server.accept()
        with line, contextlib.suppress(OSError):
            line.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


def test_an_address_that_is_not_ray(monkeypatch):
    monkeypatch.setattr("certcal.cluster.session.CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        refused("timed out", engine=Cluster(address=address))
        with ThreadPoolExecutor(1) as other:
            other.submit(greet, silent)
            refused("what answers there is not Ray", engine=Cluster(address=address))


def test_an_empty_address_in_the_environment_names_none(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "")
    assert _named(Cluster()) is None
    monkeypatch.setenv("RAY_ADDRESS", "here:1")
    assert _named(Cluster()) == "here:1"
    assert _named(Cluster(address="there:1")) == "there:1"


def test_a_refused_address_leaves_no_folder(tmp_path, monkeypatch, capsys):
    inputs, labels = small_data()
    np.savez(tmp_path / "data.npz", inputs=inputs.numpy(), labels=labels.numpy())
    monkeypatch.chdir(tmp_path)
    given = ["--model", "smoothing_models:small_model", "--data", "data.npz", "--sigma", "0.3", "--engine", "ray"]
    with pytest.raises(SystemExit):
        main(["certify", "mine", *given, "--ray-address", "127.0.0.1:1"])
    assert "Connection refused" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "mine").exists()


def test_the_folder_of_a_program_that_was_killed_is_removed(tmp_path):
    """Those of programs that live are not."""
    program = "import pathlib, sys, time; from certcal.cluster.session import cluster_folder\n"
    program += "with cluster_folder(pathlib.Path(sys.argv[1])) as folder: print(folder, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        theirs = Path(other.stdout.readline().strip())
        with cluster_folder(tmp_path) as mine, cluster_folder(tmp_path) as second:
            assert mine.is_dir()
            assert second.is_dir()
            assert theirs.is_dir()
        assert not mine.exists()
        other.kill()
        other.wait()
    assert theirs.is_dir()
    with cluster_folder(tmp_path):
        assert not theirs.exists()


@pytest.mark.parametrize("text", ["nowhere", "ray://here:10001", "here:", ":1"])
def test_an_address_that_is_none(text):
    with pytest.raises(InputError, match="host:port"):
        Cluster(address=text)


@pytest.mark.parametrize("engine", ["dask", None, 4])
def test_another_engine(engine):
    refused("Expected `engine` to be 'local', 'ray' or a certcal.cluster.Cluster", engine=engine)


@pytest.mark.ray
def test_a_worker_with_another_version(tmp_path):
    fake = tmp_path / "certcal-9.9.9.dist-info"
    fake.mkdir()
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: certcal\nVersion: 9.9.9\n")
    with head(path=[str(tmp_path)], workers=1) as address:
        text = refused(" has 9.9.9.", engine=Cluster(address=address))
    assert "Expected every node of the cluster to have certcal 0.1.0" in text


def test_a_sweep_on_a_cluster_that_cannot_be_reached(tmp_path, monkeypatch, capsys):
    """One line, exit code 2, and no trial is begun."""
    (tmp_path / "sweep.toml").write_text(
        '[model]\nname = "lenet"\n[data]\nname = "digits"\n[test]\nname = "digits"\n[objective]\nname = "noise"\n'
        '[train]\nsigma = 0.25\n[engine]\ndevice = "cpu"\n[sweep]\nover = { "train.seed" = [1, 2] }\n'
    )
    monkeypatch.chdir(tmp_path)
    for words, expected in (
        (["--engine", "ray", "--ray-address", "127.0.0.1:1"], "127.0.0.1:1: [Errno 111] Connection refused"),
        (["--workers", "2"], "Expected `--engine` to be ray with --workers"),
    ):
        with pytest.raises(SystemExit) as caught:
            main(["sweep", "grid", "--recipe", "sweep.toml", *words])
        error = capsys.readouterr().err
        assert caught.value.code == 2, error
        assert expected in error
        assert not list((tmp_path / "runs").glob("grid/trial-*"))


@pytest.mark.ray
def test_the_command_starts_and_stops_a_cluster_of_its_own(tmp_path):
    """No folder of Ray's is left, and the engine is nothing that a run's settings remember."""
    before = set(Path("/tmp").glob("certcal-ray-*"))
    inputs, labels = small_data()
    np.savez(tmp_path / "data.npz", inputs=inputs.numpy(), labels=labels.numpy())
    given = ["--model", "smoothing_models:small_model", "--data", "data.npz", "--sigma", "0.3", "--n", "500"]
    command = [sys.executable, "-m", "certcal", "certify", "run", *given, "--no-figures", "--engine", "ray"]
    known = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    known |= {"PYTHONPATH": os.pathsep.join(HERE)}
    there = subprocess.run([*command, "--workers", "1"], cwd=tmp_path, env=known, capture_output=True, text=True)
    assert there.returncode == 0, there.stderr
    assert "ray" not in (tmp_path / "runs" / "run" / "config.toml").read_text()
    assert "Ray" not in there.stderr
    assert set(Path("/tmp").glob("certcal-ray-*")) <= before
    (left,) = [line for line in there.stderr.splitlines() if "draws made" in line]
    assert left.startswith("5,000 draws made")
    drawn = load_evidence(tmp_path / "runs" / "run" / "shards")
    model = build_model("smoothing_models:small_model", classes=4, channels=1, size=8)
    local = collect_evidence(model, small_data(), sigma=0.3, n=500)
    assert_same(drawn, local)


@pytest.mark.ray
def test_a_cluster_of_its_own_is_nobody_elses(tmp_path, monkeypatch):
    """Its folder and its ports are closed to others, and workers import nothing from the working folder."""
    import psutil

    for name in ("queue", "secrets", "tomllib"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    def listening():
        own = [psutil.Process(), *psutil.Process().children(recursive=True)]
        ports = [one.laddr for process in own for one in process.net_connections("inet") if one.status == "LISTEN"]
        return {(one.ip, one.port) for one in ports}

    before, elsewhere = set(Path("/tmp").glob("certcal-ray-*")), listening()  # other tests may have a cluster
    with connected(Cluster(workers=1)):
        (folder,) = set(Path("/tmp").glob("certcal-ray-*")) - before
        assert folder.stat().st_mode & 0o077 == 0
        ports = listening() - elsewhere
        assert len(ports) > 3
        assert {ip for ip, _ in ports} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
        assert ray_path() == [False, False]
    assert not (tmp_path / "ran").exists()


def ray_path():
    """Whether a worker has the working folder on its path, and imports from it."""
    import ray

    @ray.remote
    def look(place):
        import queue
        import sys

        return [place in sys.path, queue.__file__.startswith(place)]

    return ray.get(look.remote(os.getcwd()))

"""Open folders that a stranger made to hurt: nothing runs, nothing outside is touched, nothing steers the terminal."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess

import numpy as np
import torch
from tests.chaos import desk as d
from tests.chaos.harness import typed

from certcal.files import sealed, unsealed

VERBS = (["evaluate", "made", "--no-figures"], ["report", "made", "--no-figures"], ["certify", "made", "--no-figures"],
         ["attack", "made", "--ace-steps", 1, "--family", "ace"], ["recalibrate", "made", "--repeats", 2],
         ["certify", "made", "--n", 1000, "--no-figures"], ["evaluate", "made", "--groups", "label", "--no-figures"],
         ["compare", "made", "grid", "--out", "side"], ["check", "made", "--require", "ece <= 1"], ["plan", "made"],
         ["train", "net"], ["sweep", "grid"], ["data", "data.npz"])  # fmt: skip
NAMES = (
    "\x1b[31m\x9b",
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "\u202egnp",
    "../../../x",
    "\n\n",
    "'\"",
    "{{7*7}}",
)
TYPES = (None, True, 7, -1, 1e400, "text", [], [[]], {}, {"a": []})


class Evil:
    """What runs when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


def wreak(place, count, clock, rng, tally):
    """Open so many folders, each with every verb."""
    keep = d.furnish(place / "keep")
    harms = list(_harms(rng))
    for turn, place_of in enumerate(rng.permutation(len(harms))[:count].tolist()):
        name, harm = harms[place_of]
        desk, victim, mark = place / f"desk-{turn}", place / "victim", place / "ran"
        shutil.rmtree(victim, ignore_errors=True)
        victim.mkdir()
        (victim / "precious").write_text("mine")
        shutil.copytree(keep, desk)
        harm(desk, victim, mark)
        for words in VERBS:
            outcome, code, _, error = typed(words, desk)
            if mark.exists():
                outcome = "RAN"
                mark.unlink()
            if [path.name for path in victim.iterdir()] != ["precious"] or (victim / "precious").read_text() != "mine":
                outcome = "TOUCHED"
            tally.add(outcome, f"{name}: {' '.join(map(str, words))}: {code} {error[-300:]!r}")
        shutil.rmtree(desk)
        if clock():
            return


def _harms(rng):
    """Ways to harm, by name."""
    for factory in ("evil:make", "os:system", "builtins:exec", "subprocess:run", "nets:make"):
        for file in ("runs/made/config.toml", "runs/net/train.toml", "runs/grid/sweep.toml"):
            yield f"{factory} in {file}", _factory(factory, file)
    for module in (
        "json",
        "queue",
        "torch",
        "typer",
        "numpy",
        "tomllib",
        "secrets",
        "sitecustomize",
        "certcal",
        "typing",
    ):
        yield (
            f"{module}.py",
            lambda desk, victim, mark, own=module: (desk / f"{own}.py").write_text(
                f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n"
            ),
        )
    for name in ("log.txt", ".lock", ".training", "manifest.json", "metrics.json", "report.html", "tables", "figures",
                 "attack", "recalibration", ".switch", ".new-x", "shards", "evidence.parquet"):  # fmt: skip
        yield f"link {name}", _link(name)
    for name in ("log.txt", "manifest.json", "provenance.json", "config.toml", "evidence.parquet", "shards/x.parquet"):
        yield f"pipe {name}", _special(name, None)
        yield f"device {name}", _special(name, "/dev/zero")
    yield "library's options", _library
    yield "list behind a link", _behind_link
    for path in ("../../../victim/precious", "/etc/passwd", "a/../../x", ""):
        yield f"manifest names {path!r}", _manifest(path)
    for file in ("runs/net/model.pt", "runs/net/checkpoint.pt", "data.npz"):
        yield f"pickle in {file}", _pickle(file)
    for name in NAMES:
        yield f"names {name!r}", _named(name)
    yield "git", _git
    for file in ("provenance.json", "manifest.json", "attack/ace.json", "recalibration/map.json"):
        for _ in range(6):
            yield f"types in {file}", _types(file, rng)


def _factory(name, file):
    def harm(desk, victim, mark):
        text = (desk / file).read_text()
        options = f'\noptions = {{ command = "touch {mark}" }}' if name == "os:system" else ""
        (desk / file).write_text(text.replace('name = "nets:make"', f'name = "{name}"{options}', 1))
        (desk / "evil.py").write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n")
        (desk / "nets.py").write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n")

    return harm


def _link(name):
    def harm(desk, victim, mark):
        for run in ("made", "net", "grid"):
            place = desk / "runs" / run / name
            shutil.rmtree(place, ignore_errors=True)
            place.unlink(missing_ok=True)
            place.symlink_to(victim / "new" if "." in name[1:] or name in (".lock", ".training") else victim)

    return harm


def _special(name, target):
    """A pipe that nobody writes to, or a link to a device without an end."""

    def harm(desk, victim, mark):
        place = desk / "runs/made" / name
        place.unlink(missing_ok=True)
        if target is None:
            os.mkfifo(place)
        else:
            place.symlink_to(target)

    return harm


def _library(desk, victim, mark):
    (desk / "net").mkdir()
    (desk / "net/config.json").write_text('{"model_type": "vit", "architectures": ["ViTForImageClassification"]}')
    (desk / "net/pytorch_model.bin").write_bytes(pickle.dumps(Evil(mark)))
    config = desk / "runs/made/config.toml"
    options = "\noptions = { weights_only = false, use_safetensors = false }"
    config.write_text(config.read_text().replace('name = "nets:make"', f'name = "hf:net"{options}', 1))


def _behind_link(desk, victim, mark):
    run = desk / "runs/made"
    (run / "figures").mkdir(exist_ok=True)
    (run / "figures/deep").symlink_to(victim)
    files = unsealed(json.loads((run / "manifest.json").read_text()))["files"]
    files["figures/deep/precious"] = hashlib.sha256(b"mine").hexdigest()
    (run / "manifest.json").write_text(json.dumps(sealed({"files": files})))


def _manifest(path):
    def harm(desk, victim, mark):
        files = {path: "e" * 64} | {f"../../../victim/{one.name}": "0" * 64 for one in victim.iterdir()}
        (desk / "runs/made/manifest.json").write_text(json.dumps(sealed({"files": files})))

    return harm


def _pickle(file):
    def harm(desk, victim, mark):
        if file.endswith(".npz"):
            np.savez(desk / file, inputs=np.array([Evil(mark)], dtype=object), labels=np.zeros(1, dtype=int))
        elif "model" in file:
            torch.save({"state_dict": Evil(mark)}, desk / file)
        else:
            (desk / file).write_bytes(pickle.dumps(Evil(mark)))

    return harm


def _named(name):
    def harm(desk, victim, mark):
        path = desk / "runs/made/provenance.json"
        content = unsealed(json.loads(path.read_text()))
        content["data"] |= {"name": name, "classes": [name] * 3}
        content["model"] |= {"name": name, "weights": name}
        path.write_text(json.dumps(sealed(content)))
        config = desk / "runs/made/config.toml"
        config.write_text(config.read_text().replace('"nets:make"', json.dumps(name)))
        with np.load(desk / "data.npz") as data:
            held = dict(data)
        np.savez(desk / "data.npz", **held, classes=np.array([f"{name} {n}" for n in range(3)]))

    return harm


def _git(desk, victim, mark):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=desk, check=True, capture_output=True
        )

    git("init", "-q")
    (desk / ".gitattributes").write_text("* filter=evil\n")
    git("add", "nets.py")
    git("commit", "-q", "-m", "one")
    for key in (
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.process",
        "core.pager",
        "diff.external",
        "core.editor",
    ):
        git("config", key, f"touch {mark}; cat")
    (desk / "nets.py").write_text((desk / "nets.py").read_text() + "\n")


def _types(file, rng):
    """A value somewhere in a JSON file of another type, sealed as a stranger would seal it."""

    def harm(desk, victim, mark):
        path = desk / "runs/made" / file
        content = unsealed(json.loads(path.read_text()))
        spot, key = _spot(content, rng)
        spot[key] = TYPES[int(rng.integers(len(TYPES)))]
        path.write_text(json.dumps(sealed(content)))

    return harm


def _spot(content, rng):
    while True:
        keys = list(content) if isinstance(content, dict) else range(len(content))
        key = keys[int(rng.integers(len(keys)))]
        inner = content[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            return content, key
        content = inner

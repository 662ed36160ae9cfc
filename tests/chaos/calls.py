"""Call public functions with arguments of the wrong kind: an answer, or one sentence that says what was expected."""

import importlib
import inspect
import os
import warnings
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
from tests.chaos.harness import TooLongError, alarm

from certcal.errors import CertcalError

ROOMS = ("attacks", "certificates", "data", "evaluation", "metrics", "models", "recalibration", "report",
         "runs", "smoothing", "studies", "training", "worstcase")  # fmt: skip
# These start processes or clusters, use the network, or train for minutes when they are asked to.
LEFT_OUT = {"demo_run", "download_dataset", "leave_group", "measure_cost", "estimate_cost", "estimate_training",
            "run_study", "run_sweep", "train",
            "entry_rows"}  # fmt: skip
FUNCTIONS = ("begin", "fit", "loss", "progress", "stop", "tell")


def odd_values():
    """Things that people pass by mistake."""
    return [
        None, True, 0, 1, -1, 10**30, 0.5, -0.5, float("nan"), float("inf"), 1e308, "", "text", "../x", b"bytes", [],
        [[]], [0.5], [0.2, 0.8], [1, 0], [None], ["a"], (), (0.1, 0.2, 0.3), {}, {"a": 1}, {0.5}, object(), object, len,
        range(3), iter([1, 2]), np.array(0.5), np.array([0.1, 0.9]), np.array([]), np.zeros((2, 3)), np.array(["x"]),
        np.array([1 + 2j]), np.ma.masked_array([0.5], mask=[True]), np.array([0, 2**63], dtype=np.uint64),
        torch.tensor(0.5), torch.tensor([0.1, 0.9]), torch.zeros(2, 3, 4, 4), torch.zeros(0), torch.nn.Linear(3, 2),
        torch.zeros(2).to_sparse(), Path("nowhere"), Path("."), "digits", "lenet", OrderedDict(), slice(3), Ellipsis,
        NotImplemented, Exception("x"), 3 + 4j, np.float32(0.25), np.int64(3), np.bool_(True), _evidence(),
    ]  # fmt: skip


def _evidence():
    from smoothing_oracles import random_evidence

    return random_evidence(np.random.default_rng(0), inputs=4, draws=1000)


def good_values():
    """By parameter, what most functions take for it, so that one odd value among these meets the later checks."""
    from certcal import confidence_bounds, evaluate

    evidence = _evidence()
    bounds = confidence_bounds(evidence, radius=0.1, alpha=0.01)
    network, points, labels = torch.nn.Linear(3, 2), torch.rand(4, 3), [0, 1, 0, 1]
    return {
        "lower": [0.1, 0.2, 0.6, 0.7], "upper": [0.3, 0.4, 0.9, 0.8], "correct": [0, 1, 0, 1], "radius": 0.1,
        "confidence": [0.2, 0.3, 0.7, 0.75], "threshold": 0.5, "failures": 1, "delta": 0.01, "alpha": 0.001, "at": 0.1,
        "inputs": points, "model": network, "x": points, "y": labels, "labels": labels, "predicted": labels,
        "epsilon": 0.1, "eta": 1, "omega": "y", "sigma": 0.25, "data": (points, labels), "n": 20, "evidence": evidence,
        "radii": [0.1], "bounds": bounds, "votes": [[3, 7], [9, 1], [5, 5], [0, 10]], "trials": 10, "successes": 3,
        "changed": 1, "logits": torch.rand(4, 2), "constant": 1.0, "steps": 2, "draws": 10, "attack_draws": 2,
        "probs": [[0.5, 0.5]] * 4, "accuracy": 0.5, "report": evaluate(evidence, radii=0.1, alpha=0.01), "position": 0,
        "classes": labels, "selected": [1, 0, 0, 1], "fit": lambda part: None, "terms": {"alpha": 0.01},
        "made": evidence, "result": bounds, "n_bins": 5, "times": 2, "task": "text", "facts": [], "figures": False,
    }  # fmt: skip


def callables():
    """Public functions and classes by name."""
    import certcal

    found = {f"certcal.{name}": getattr(certcal, name) for name in certcal.__all__}
    for room in ROOMS:
        module = importlib.import_module(f"certcal.{room}")
        found |= {f"certcal.{room}.{name}": getattr(module, name) for name in module.__all__}
    unique = {id(own): (name, own) for name, own in found.items() if callable(own)}
    kept = [(name, own) for name, own in unique.values() if name.rpartition(".")[2] not in LEFT_OUT]
    return [one for one in kept if not (inspect.isclass(one[1]) and issubclass(one[1], BaseException))]


def offered(name, own):
    """Whether it is offered to users: at the top level, or with a line on where in the paper it comes from."""
    return inspect.isfunction(own) and (name.count(".") == 1 or "Paper:" in (own.__doc__ or ""))


def wreak(place, count, clock, rng, tally):
    """Make so many calls."""
    place.mkdir(parents=True, exist_ok=True)
    os.chdir(place)
    functions, values, good = [one for one in callables() if offered(*one)], odd_values(), good_values()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for turn in range(count):
        name, function = functions[turn % len(functions)]
        arguments = _arguments(function, values, good if rng.random() < 0.6 else {}, rng)
        if arguments is None:
            tally.add("done", name)
            continue
        shown = ", ".join(f"{key}={_brief(value)}" for key, value in arguments.items())
        tally.add(_outcome(function, arguments), f"{name}({shown})")
        if clock():
            return


def _arguments(function, values, good, rng):
    """Odd values for what a function needs and some of the rest; or good ones where they are known, and one odd."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    known = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    odd = known[int(rng.integers(len(known)))].name
    chosen = {}
    for one in known:
        needed = one.default is inspect.Parameter.empty or one.name in ("upper", "correct", "figures")
        if one.name in good and one.name != odd:
            if needed or rng.random() < 0.3:
                chosen[one.name] = good[one.name]
        elif needed or one.name == odd or (not good and rng.random() < 0.15):
            # What a function of the caller's own raises is the caller's.
            fitting = [value for value in values if not (one.name in FUNCTIONS and callable(value))]
            chosen[one.name] = fitting[int(rng.integers(len(fitting)))]
    return chosen


def _outcome(function, arguments):
    positional = [
        name for name, one in inspect.signature(function).parameters.items() if one.kind == one.POSITIONAL_ONLY
    ]
    first = [arguments.pop(name) for name in positional if name in arguments]
    try:
        with alarm(60), open(os.devnull, "w") as away:
            import contextlib

            with contextlib.redirect_stdout(away), contextlib.redirect_stderr(away):
                function(*first, **arguments)
        return "done"
    except CertcalError as error:
        return "refused" if "\n" not in str(error) else "TWO LINES"
    except OSError as error:  # of a path that is none, as the system says it
        return "refused" if error.filename is not None else f"OSERROR {error}"
    except TooLongError:
        return "TOO LONG"
    except Exception as error:
        return f"{type(error).__name__.upper()} {str(error).splitlines()[0][:60] if str(error) else ''}"


def _brief(value):
    text = repr(value).replace("\n", " ")
    return text if len(text) < 40 else f"{text[:37]}…"

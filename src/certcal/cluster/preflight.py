"""Before anything is run: every node that may be given work has the same packages, and can do what it will be asked."""

import hashlib
import platform
import secrets
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from certcal.cluster.session import Session
from certcal.errors import CertcalError, InputError

_PACKAGES = ("certcal", "torch", "numpy")


def check_versions(session: Session) -> None:
    """Refuse a node whose Python, certcal, torch or NumPy is another one, naming both.

    The sources of certcal count as well: a checkout that was changed keeps its version.
    """
    for _, trouble in on_every_node(session, version_trouble()):
        if trouble:
            raise InputError(trouble)


def version_trouble() -> Callable[[], str]:
    """A function that tells, on a node, what is another version there than here; nothing where all is the same.

    Ray sends it as code, not by its name: nothing of certcal may be there, or another version.
    """
    here, packages = _own_versions(), _PACKAGES

    def trouble() -> str:
        import hashlib
        import platform
        from importlib.metadata import PackageNotFoundError, version
        from importlib.util import find_spec
        from pathlib import Path

        import ray

        found = {"Python": platform.python_version()}
        for name in packages:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = "none"
        place = find_spec("certcal")
        digest = hashlib.sha256()
        for folder in (place.submodule_search_locations or ()) if place else ():
            for path in sorted(Path(folder).rglob("*.py")):
                digest.update(path.read_bytes())
        found["certcal's sources"] = digest.hexdigest()[:12]
        for name, own in here.items():
            if found[name] != own:
                return (
                    f"Expected every node of the cluster to have {name} {own}, as this program has, "
                    f"but node {ray.util.get_node_ip_address()} has {found[name]}."
                )
        return ""

    return trouble


def _own_versions() -> dict[str, str]:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.parent.rglob("*.py")):
        digest.update(path.read_bytes())
    own = {"Python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
    return own | {"certcal's sources": digest.hexdigest()[:12]}


def check_shared(session: Session, folder: Path) -> None:
    """Refuse a folder that some node does not share with this program, or cannot write into."""
    token = secrets.token_hex(8)
    path = folder / f".shared-{token}"
    path.write_text(token, encoding="utf-8")
    try:
        for address, trouble in on_every_node(session, _trouble_with, path, token):
            if trouble:
                need = "be a folder that this program and every node of the cluster share"
                raise InputError.expected("run", need, f"{folder}: node {address} {trouble}")
    finally:
        path.unlink(missing_ok=True)


def _trouble_with(path: Path, token: str) -> str:
    """On a node: what is wrong with the folder of a file that the driver wrote; nothing if it can be used."""
    try:
        if path.read_text(encoding="utf-8") != token:
            return "sees another file there"
        probe = path.with_name(f"{path.name}-{secrets.token_hex(4)}")
        probe.touch()
        probe.unlink()
    except FileNotFoundError:
        return "does not see what this program writes there"
    except OSError as error:
        return f"cannot use it ({error.strerror or error})"
    return ""


def on_every_node(session: Session, function: Callable[..., Any], *arguments: Any) -> list[tuple[str, Any]]:
    """(address, what a function returns there) of each node that may be given work; nodes may share an address.

    An error of the function is raised here if it is certcal's own; any other is told in a line that names the node.
    """
    task = ray.remote(function)
    calls = {}
    for node in session.nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        calls[task.options(num_cpus=0, max_retries=1, scheduling_strategy=there).remote(*arguments)] = node
    answers = []
    for call, node in calls.items():
        address = node["NodeManagerAddress"]
        try:
            answers.append((address, ray.get(call, timeout=session.cluster.patience)))
        except GetTimeoutError as error:
            seconds = f"{session.cluster.patience:g} s"
            raise CertcalError(f"Node {address} of the cluster did not answer within {seconds}.") from error
        except RayError as error:
            raise told(error, f"Node {address} of the cluster cannot be used") from error
    return answers


def told(error: BaseException, opening: str) -> CertcalError:
    """An error that came back from a worker: certcal's own as it is, any other in one line after an opening."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, CertcalError):
        return type(cause)(str(cause))
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return CertcalError(f"{opening}: {type(cause).__name__}: {(lines or ['no reason given'])[-1].rstrip('.')}.")

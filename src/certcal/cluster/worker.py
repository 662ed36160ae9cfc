"""What runs in a worker process. Ray sends this file as code: certcal may be missing there, or be another version."""

import hashlib
import platform
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ray

_PACKAGES = ("certcal", "torch", "numpy")


class Host:
    """A process that makes its state once and then answers calls with it."""

    def prepare(self, expected: dict[str, str], places: list[str], make_state: bytes, arguments: list[Any]) -> str:
        """Make the state. Comes back: what is another version here than expected, nothing where all is the same."""
        sys.path += [place for place in places if place not in sys.path]
        found = versions()
        for name, own in expected.items():
            if found[name] != own:
                return (
                    f"Expected every node of the cluster to have {name} {own}, as this program has, "
                    f"but node {ray.util.get_node_ip_address()} has {found[name]}."
                )
        got = [ray.get(one) if isinstance(one, ray.ObjectRef) else one for one in arguments]
        self._state = ray.cloudpickle.loads(make_state)(*got)  # only now: it may need certcal
        return ""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The answer of a function to the state and its arguments."""
        return function(self._state, *arguments)


def versions() -> dict[str, str]:
    """Versions of what results depend on. Sources of certcal count: a checkout that was changed keeps its version."""
    found = {"Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    place, digest = find_spec("certcal"), hashlib.sha256()
    for folder in (place.submodule_search_locations or ()) if place else ():
        for path in sorted(Path(folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return found | {"certcal's sources": digest.hexdigest()[:12]}

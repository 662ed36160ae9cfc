"""The plan of looks of a store, written down before anybody can look at a draw."""

import json
import os
from pathlib import Path

from certcal.errors import CertcalError, InputError
from certcal.files import replacing, sealed, unsealed
from certcal.scalars import guarded
from certcal.smoothing.evidence import EvidenceHeader

PLAN = "plan.json"


def write_plan(folder: Path, header: EvidenceHeader) -> None:
    """Keep the looks of a header as those of the folder."""
    try:
        with replacing(folder / PLAN) as part:
            part.write_text(json.dumps(sealed(header.as_dict()), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise CertcalError(f"The plan of looks could not be written to {folder}: {error}.") from error


def read_plan(folder: Path) -> EvidenceHeader | None:
    """The header with the plan that was written down in a folder, if there is one."""
    try:
        return EvidenceHeader.from_dict(unsealed(json.loads((folder / PLAN).read_text(encoding="utf-8"))))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError.expected("store", f"hold a {PLAN} that can be read", f"{folder} ({error})") from error


@guarded
def planned_looks(folder: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """The numbers of draws at which looks at a store are planned; None where nothing was begun.

    Paper: —.
    """
    plan = read_plan(Path(folder))
    return None if plan is None else plan.stages

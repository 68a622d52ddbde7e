"""A failure as a JSON file that replays on another machine."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from difftest.case import Case
from difftest.errors import CacheUnusable, InvalidCase, ReplayError

if TYPE_CHECKING:
    from difftest.cell import Cell
    from difftest.errors import FindingError

SCHEMA = 1
_REQUIRED = {"schema": int, "kernel": str, "policy": str, "dtype": str, "engine": str, "target": str, "reference": str, "case": dict}
_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True)
class ReplayFile:
    """What a replay file says: which case of which cell, and what was found."""

    kernel: str
    policy: str
    dtype: str
    engine: str
    target: str
    reference: str
    case: Case
    seed: int | None
    finding: str
    message: str


def write_replay(  # noqa: PLR0913 - each is a field of the file
    directory: Path, cell: Cell, case: Case, error: FindingError, *, session_seed: int, reference: str
) -> Path:
    """Write a failing case to `directory` and return its path; the file is whole or absent.

    Raises:
        CacheUnusable: when the directory cannot be written.

    """
    content = {
        "schema": SCHEMA,
        "kernel": cell.spec.name,
        "policy": cell.policy.name,
        "dtype": cell.dtype,
        "engine": cell.engine.name,
        "target": cell.engine.target,
        "reference": reference,
        "seed": session_seed,
        "case": json.loads(case.to_json()),
        "finding": error.kind,
        "message": str(error),
        "versions": versions(),
    }
    where = f"{cell.engine.name}-{cell.engine.target.replace(':', '')}"
    path = directory / f"{cell.spec.name}-{cell.policy.name}-{cell.dtype}-{where}.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=directory, prefix=".replay-", suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            json.dump(content, file, indent=1)
            file.write("\n")
        Path(temporary).replace(path)
    except OSError as error_of_disk:
        raise CacheUnusable(
            f"the failing case cannot be written to {directory}: {error_of_disk.strerror}; free space there, make it writable, or pass "
            f"--difftest-failures=DIR. The case: {case!r}"
        ) from None
    return path


def read_replay(path: Path) -> ReplayFile:
    """Return what a replay file says; nothing in it is executed.

    Raises:
        ReplayError: when the file is missing, is not a replay file, or is of a later schema.

    """
    content = _content(path)
    if content.get("schema", 0) != SCHEMA:
        found = content.get("schema")
        raise ReplayError(f"{path}: schema {found!r}, and this difftest reads schema {SCHEMA}; replay with the version that wrote it")
    for name, kind in _REQUIRED.items():
        if not isinstance(content.get(name), kind):
            raise ReplayError(
                f"{path}: field {name!r} is {content.get(name)!r}, expected {kind.__name__}; the file was not written by difftest"
            )
    try:
        case = Case.from_fields(content["case"])
    except (InvalidCase, TypeError, RecursionError) as error:
        raise ReplayError(f"{path}: field 'case': {error}") from None
    words = {name: content[name] for name in ("kernel", "policy", "dtype", "engine", "target", "reference")}
    seed = content.get("seed")
    return ReplayFile(
        **words,
        case=case,
        seed=seed if isinstance(seed, int) else None,
        finding=str(content.get("finding", "")),
        message=str(content.get("message", "")),
    )


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    found = {"python": platform.python_version()}
    for name in ("torch", "triton", "hypothesis", "numpy", "scipy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def _content(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LIMIT_BYTES:
            raise ReplayError(f"{path}: {path.stat().st_size} bytes; a replay file has at most {_LIMIT_BYTES}")
        content = json.loads(path.read_text())
    except OSError as error:
        raise ReplayError(f"{path}: {error.strerror or error}; pass the path that the failing run printed") from None
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"{path}: not JSON ({error}); the file was not written by difftest, or is damaged") from None
    if not isinstance(content, dict):
        raise ReplayError(f"{path}: holds a {type(content).__name__}, expected a JSON object")
    return content

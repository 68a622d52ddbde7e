"""Where registered kernels are found."""

from __future__ import annotations

import configparser
import tomllib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from difftest.errors import InvalidSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from difftest.spec import KernelSpec


def plugin_is_installed() -> bool:
    """Whether pytest loads the plugin by itself, through its entry point."""
    return any(point.value == "difftest.plugin" for point in entry_points(group="pytest11"))


def reference_roots(root: Path) -> list[str]:
    """Return the value of the ini option `difftest_references` in the project at `root`; by default `["reference"]`.

    Raises:
        InvalidSpec: when a configuration file cannot be read.

    """
    try:
        value = _ini(root)
    except (tomllib.TOMLDecodeError, configparser.Error) as error:
        raise InvalidSpec(f"the pytest configuration in {root.name}/ cannot be read: {error}") from None
    if value is None:
        return ["reference"]
    return value.split() if isinstance(value, str) else list(value)


def load_registered(root: Path, roots: Sequence[str]) -> Mapping[str, KernelSpec]:
    """Import every reference file below `roots` and return the registered specs by name.

    Raises:
        InvalidSpec: when a file cannot be imported.

    """
    from difftest.collection import specs_of  # noqa: PLC0415 - loads pytest and torch

    found: dict[str, KernelSpec] = {}
    for directory in roots:
        for path in sorted((root / directory).rglob("*.py")):
            if not path.name.startswith(("_", "test_", "conftest")):
                found.update({spec.name: spec for spec in specs_of(path, root)})
    return found


def _ini(root: Path) -> Any:
    for name in ("pytest.ini", "tox.ini", "setup.cfg"):
        parser = configparser.ConfigParser()
        if (root / name).is_file():
            parser.read(root / name)
            section = "tool:pytest" if name == "setup.cfg" else "pytest"
            if parser.has_option(section, "difftest_references"):
                return parser.get(section, "difftest_references")
    if (root / "pyproject.toml").is_file():
        document = tomllib.loads((root / "pyproject.toml").read_text())
        return document.get("tool", {}).get("pytest", {}).get("ini_options", {}).get("difftest_references")
    return None

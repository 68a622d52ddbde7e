"""The laws of the architecture, read from the source."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import difftest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "difftest").rglob("*.py"))


def tiers():
    """Return module name -> tier from the table in docs/ARCHITECTURE.md."""
    found = {}
    for tier, names in re.findall(r"^\| (\d) \| (.+?) \|", (ROOT / "docs" / "ARCHITECTURE.md").read_text(), re.MULTILINE):
        for name in re.findall(r"`([\w/]+)`", names):
            found[name.rstrip("/")] = int(tier)
    return found


def module_of(path):
    """Return the part of a file's name that the table speaks of: `engines` for difftest/engines/gpu.py."""
    return path.relative_to(ROOT / "difftest").with_suffix("").parts[0]


def imports_of(tree):
    """Return the difftest modules that a file imports when it is imported: imports in functions and under TYPE_CHECKING are apart."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "difftest":
            parts = node.module.split(".")
            names.update([parts[1]] if len(parts) > 1 else [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            names.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("difftest."))
    return names


def upward(path, tree, table):
    mine = module_of(path)
    return {name for name in imports_of(tree) if name != mine and table[name] > table[mine]}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_go_downwards_only(path):
    if path.name == "__init__.py" and path.parent.name == "difftest":
        return
    table = tiers()
    assert module_of(path) in table, f"{path.name} is not in the table of docs/ARCHITECTURE.md"
    assert not upward(path, ast.parse(path.read_text()), table)


def test_an_upward_import_would_be_seen():
    tree = ast.parse("from difftest.runner import CellRunner\nimport difftest.plugin\nfrom difftest.errors import DifftestError\n")
    assert upward(ROOT / "difftest" / "case.py", tree, tiers()) == {"runner", "plugin"}


PRIVATE = re.compile(r"device_caches|create_function_from_signature|compute_cache_key|_do_compile|native_specialize|knobs\.|libtriton")


def test_only_the_adapter_touches_private_names_of_triton():
    users = {path.name for path in SOURCES if PRIVATE.search(_code(path.read_text()))}
    assert users == {"triton_adapter.py"}


def _code(text):
    """Return the source without comments and docstrings."""
    return "\n".join(ast.unparse(node) for node in _undocumented(ast.parse(text)).body)


def _undocumented(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                node.body = node.body[1:] or [ast.Pass()]
    return tree


COMPARERS = ("comparison", "judge", "oracle", "ulps")


@pytest.mark.parametrize("name", COMPARERS)
def test_comparison_returns_and_does_not_raise(name):
    assert not [node for node in ast.walk(ast.parse((ROOT / "difftest" / f"{name}.py").read_text())) if isinstance(node, ast.Raise)]


def raised_kinds(text):
    return [match[1] for match in re.finditer(r"^\s*raise (?:errors\.)?(\w+)\(", text, re.MULTILINE)]


def test_each_kind_of_finding_has_one_raise_line_in_the_runner():
    """Hypothesis tells failures apart by the line that raises."""
    kinds = raised_kinds((ROOT / "difftest" / "runner.py").read_text())
    assert len(kinds) > 10
    assert sorted(set(kinds)) == sorted(kinds)


@pytest.mark.parametrize("module", ["difftest", "difftest.plugin", "difftest.cli"])
def test_importing_loads_neither_torch_nor_triton(module):
    code = f"import sys, {module}; print([name for name in ('torch', 'triton', 'hypothesis', 'scipy') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_is_documented_and_loads():
    for name in difftest.__all__:
        assert getattr(difftest, name).__doc__
    with pytest.raises(AttributeError, match="module 'difftest' has no attribute 'Kase'; it has Case, Contract"):
        _ = difftest.Kase


@pytest.mark.parametrize("path", sorted((ROOT / "kernels").glob("*.py")), ids=lambda path: path.name)
def test_kernels_import_nothing_of_ours(path):
    allowed = {"torch", "triton", *sys.stdlib_module_names}
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
    assert names <= allowed


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_engine_knows_no_kernel(path):
    assert not re.search(r"bilinear|mrope|slot_mapping", _code(path.read_text()))

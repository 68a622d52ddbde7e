"""The examples of docs/strategies.md run as they are written, and it lists every strategy."""

import re
from pathlib import Path

import pytest

from difftest import strategies

PAGE = (Path(__file__).parent.parent / "docs" / "strategies.md").read_text(encoding="utf-8")


def run_blocks(page, directory, monkeypatch):
    """Run the python blocks of a page one after the other, away from the project's example database."""
    monkeypatch.chdir(directory)
    names = {}
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)):
        exec(compile(block, f"strategies.md block {number}", "exec"), names)  # noqa: S102 - the page is part of the project
    return names


def test_every_example_runs(tmp_path, monkeypatch):
    assert "lengths" in run_blocks(PAGE, tmp_path, monkeypatch)


def test_a_wrong_example_would_be_noticed(tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        run_blocks(PAGE.replace("== (2, 0, 1)", "== (2, 1, 1)"), tmp_path, monkeypatch)


def test_the_page_lists_every_strategy_and_no_other():
    assert set(re.findall(r"^\| `(\w+)\(", PAGE, flags=re.MULTILINE)) == set(strategies.__all__)

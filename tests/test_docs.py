"""Commands in the documents exist: their arguments are parsed as the command line parses them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from difftest import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "benchmarks").rglob("*.md"))]


def commands(text):
    """Return the `difftest ...` commands of a page: in code spans and at the end of lines of code blocks."""
    spans = re.findall(r"`(difftest (?:run|list|replay)[^`\n]*)`", text)
    code = "\n".join(re.findall(r"```(?:bash)?\n(.*?)```", text, re.DOTALL))
    blocks = re.findall(r"difftest (?:run|list|replay).*", code)
    return [command.replace("[KERNEL...]", "").replace(" S", " 1") for command in spans + blocks]


def parse(command):
    name, *arguments = shlex.split(command)[1:]
    cli.main.commands[name].make_context(name, arguments)


FOUND = [(page.name, command) for page in PAGES for command in commands(page.read_text())]


@pytest.mark.parametrize(("page", "command"), FOUND, ids=[f"{page}: {command}" for page, command in FOUND])
def test_a_command_of_a_page_is_one_that_exists(page, command):
    parse(command)


def test_a_command_that_does_not_exist_would_be_seen():
    assert len(FOUND) >= 5
    with pytest.raises(click.UsageError):
        parse("difftest run --no-such-option")


def test_files_that_pages_link_to_exist():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", re.sub(r"`[^`]*`", "", page.read_text())):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"

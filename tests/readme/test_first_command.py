"""README's first command, as a newcomer would paste it.

It runs in a copy of the tree without anything that is not under version control, with a home of
its own. README marks it by `<!-- first command -->` before the code block.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- first command -->"
SECONDS = 600


def first_command() -> str:
    """The code block after the marker, without a prompt."""
    readme = (ROOT / "README.md").read_text()
    block = re.search(rf"{MARK}\s*```\w*\n(.*?)```", readme, re.DOTALL)
    assert block is not None, f"README.md has no code block after {MARK}"
    return "\n".join(line.removeprefix("$ ") for line in block[1].splitlines())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The tree as a fresh clone of it would be."""
    tree = tmp_path / "lakequeue"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:  # an archive, or somebody else's clone
        ignored = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist")
        shutil.copytree(ROOT, tree, ignore=ignored)
        return tree
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def environment(tmp_path: Path) -> dict[str, str]:
    """A shell without a virtual environment, whose python3 is the one that runs the tests."""
    home = tmp_path / "home"
    programs = tmp_path / "programs"
    for folder in (home, programs):
        folder.mkdir(mode=0o700)
    for name in ("python3", "python"):
        # Not a link: a Python started through one would look for its library beside it.
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{Path(sys.base_prefix, "bin", "python3")}" "$@"\n')
        program.chmod(0o755)
    cache = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=False
    )
    path = [
        folder
        for folder in os.environ["PATH"].split(os.pathsep)
        if Path(folder) != Path(sys.prefix, "bin")
    ]
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "PYTHON", "LAKEQUEUE_", "VIRTUAL_ENV", "PYTEST_"))
    }
    return kept | {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(programs), *path]),
        "PIP_CACHE_DIR": cache.stdout.strip() or str(home / "pip"),
    }


def test_first_command_parses_documents(copy: Path, tmp_path: Path) -> None:
    command = first_command()
    assert "\n" not in command.strip(), "the first command is one line"
    ran = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=copy,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    shown = f"$ {command}\n{ran.stdout}\n{ran.stderr}"
    assert ran.returncode == 0, shown
    documents = sorted(path.name for path in (copy / "tests" / "documents").glob("*.pdf"))
    assert documents, "tests/documents has no documents"
    for name in documents:
        line = next((line for line in ran.stdout.splitlines() if name in line), None)
        assert line is not None, f"{name} is not in the table:\n{shown}"
        assert "completed" in line, shown
    assert "simulator" in shown, f"it does not say that a simulator answered:\n{shown}"

"""Runs the isolationtester specifications, NAME.spec, on each server.

isolationtester interleaves the steps of several sessions in given orders, and says which steps had
to wait. What it prints must be what expected/NAME.out holds (or NAME_1.out, NAME_2.out, where more
than one order is right). Each specification gets a fresh database with the settable clock, whose
search_path is lakequeue, test. A session acts as a login by
`setup { set session authorization test_worker; }`; without that it is a superuser. The permutations
share the database: print no ids, and undo in `teardown` what the next one must not see.

`tests/run tests/race --accept` writes the output into expected/ instead of comparing: read the
difference before you commit it.
"""

from __future__ import annotations

import difflib
import re
import subprocess
from pathlib import Path

import pytest

from tests.servers import Database, ServerError, debian_bin

HERE = Path(__file__).parent
SPECS = sorted(HERE.glob("*.spec"))
SECONDS = 300


def isolationtester() -> str:
    """Debian's client package brings it; it works against newer servers too."""
    program = debian_bin().parent / "lib/pgxs/src/test/isolation/isolationtester"
    if not program.exists():
        major = debian_bin().parent.name
        raise ServerError(f"isolationtester is missing: apt-get install postgresql-client-{major}")
    return str(program)


def test_every_expected_output_has_its_specification() -> None:
    names = {spec.stem for spec in SPECS}
    orphans = [
        path.name
        for path in sorted((HERE / "expected").glob("*.out"))
        if re.sub(r"_\d+$", "", path.stem) not in names
    ]
    assert orphans == []


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_specification(database: Database, spec: Path, request: pytest.FixtureRequest) -> None:
    ran = subprocess.run(
        [isolationtester(), database.scripting_conninfo("lakequeue,test")],
        input=spec.read_text(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, f"{spec.name}: {ran.stderr}\n{ran.stdout}"
    output = ran.stdout + ran.stderr
    expected = HERE / "expected" / f"{spec.stem}.out"
    if request.config.getoption("accept"):
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(output)
        return
    allowed = [path.read_text() for path in (expected, *alternatives(expected)) if path.exists()]
    assert allowed, f"there is no expected/{expected.name}; the output was\n{output}"
    if output not in allowed:
        difference = "".join(
            difflib.unified_diff(
                allowed[0].splitlines(keepends=True),
                output.splitlines(keepends=True),
                f"expected/{expected.name}",
                "output",
            )
        )
        pytest.fail(f"{spec.name} went another way:\n{difference}", pytrace=False)


def alternatives(expected: Path) -> list[Path]:
    """Further outputs that are right as well."""
    return sorted(expected.parent.glob(f"{expected.stem}_[0-9].out"))

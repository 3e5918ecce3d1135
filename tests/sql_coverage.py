"""Which statements of the PL/pgSQL functions the tests ran, as plpgsql_check's profiler saw it.

The profiler counts for every connection, also for work that was rolled back, but per database; so
each database is read before it is dropped and the counts are added up here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import psycopg

from tests.servers import Database

READ = """
    select function.proname::text, statement.stmtid, statement.lineno, statement.exec_stmts
      from pg_proc as function
      cross join lateral checker.plpgsql_profiler_function_statements_tb(function.oid) as statement
     where function.pronamespace = 'lakequeue'::regnamespace
       and function.prolang = (select oid from pg_language where lanname = 'plpgsql')
"""
# The shared memory of a dropped database is not given back by itself.
FORGET = """
    select checker.plpgsql_profiler_reset(function.oid)
      from pg_proc as function
     where function.pronamespace = 'lakequeue'::regnamespace
       and function.prolang = (select oid from pg_language where lanname = 'plpgsql')
"""


@dataclass
class FunctionCoverage:
    """The statements of one function: how often each ran, and on which line it stands."""

    name: str
    lines: dict[int, int] = field(default_factory=dict)
    runs: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def covered(self) -> int:
        return sum(1 for statement in self.lines if self.runs[statement] > 0)

    @property
    def share(self) -> float:
        return self.covered / len(self.lines) if self.lines else 1.0

    @property
    def missed_lines(self) -> list[int]:
        return sorted({line for statement, line in self.lines.items() if not self.runs[statement]})


class SqlCoverage:
    """The sum over all databases of a test session."""

    def __init__(self) -> None:
        self.functions: dict[str, FunctionCoverage] = {}
        self.problems: set[str] = set()

    def read(self, database: Database) -> None:
        """Add what ran in this database, and let the server forget it."""
        if not database.server.profiled:
            return
        with database.server.admin(database.name) as connection:
            installed = connection.execute(
                "select to_regnamespace('lakequeue') is not null"
                " and to_regnamespace('checker') is not null"
            ).fetchone()
            if installed != (True,):
                return
            # Reading compiles a function: as the function itself would be.
            connection.execute("set search_path = pg_catalog, lakequeue, pg_temp")
            try:
                rows = connection.execute(READ).fetchall()
            except psycopg.Error as error:  # a function that does not compile: others say so
                self.problems.add(str(error))
                return
            for name, statement, line, runs in rows:
                function = self.functions.setdefault(name, FunctionCoverage(name))
                if line is None:  # the invisible outermost block
                    continue
                function.lines[statement] = line
                function.runs[statement] += runs or 0
            connection.execute(FORGET)

    def packed(self) -> dict[str, list[list[int]]]:
        """What was counted, in plain types: of each function the statements, lines and runs."""
        return {
            name: [
                [statement, line, each.runs[statement]] for statement, line in each.lines.items()
            ]
            for name, each in self.functions.items()
        }

    def add(self, packed: dict[str, list[list[int]]]) -> None:
        """Add what another process counted."""
        for name, statements in packed.items():
            function = self.functions.setdefault(name, FunctionCoverage(name))
            for statement, line, runs in statements:
                function.lines[statement] = line
                function.runs[statement] += runs

    def report(self) -> list[str]:
        """The table to print, lowest share first."""
        if not self.functions:
            return ["no PL/pgSQL function was profiled", *sorted(self.problems)]
        functions = sorted(self.functions.values(), key=lambda each: (each.share, each.name))
        width = max(len(each.name) for each in functions)
        lines = []
        for each in functions:
            missed = ", ".join(str(line) for line in each.missed_lines)
            lines.append(
                f"{each.name:<{width}}  {each.covered:>4} of {len(each.lines):>4}"
                f"  {each.share:>4.0%}{'  not run: lines ' + missed if missed else ''}"
            )
        covered = sum(each.covered for each in functions)
        total = sum(len(each.lines) for each in functions)
        lines.append(
            f"{'all':<{width}}  {covered:>4} of {total:>4}  {covered / total if total else 1:>4.0%}"
        )
        return [*lines, *sorted(self.problems)]

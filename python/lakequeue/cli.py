"""The command line. Commands are imported when they are called, so that `--help` is quick."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

import click

from lakequeue import __version__
from lakequeue.config import Settings
from lakequeue.errors import Problem

# Each is the module lakequeue.commands.NAME with a click command called `command`. The words are
# here, since asking the modules for them would import them all.
COMMANDS = {
    "up": "Start everything on this machine and print the address.",
    "parse": "Parse PDF files and show their contents, tokens and cost.",
    "web": "Serve the pages, the API and the webhook.",
    "worker": "Run queued documents until stopped.",
    "status": "Show the queue, its agents and limits.",
    "migrate": "Bring the database to this version, show its state, or go back.",
    "psql": "Open a SQL shell on the database.",
    "doctor": "Check every part, and say what to fix.",
}

INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group whose commands are imported on their first use, and whose errors are plain words."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"lakequeue.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}: there are {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and end the process with the exit code (unless not standalone)."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        sys.exit(self._run(args, prog_name or "lakequeue", complete_var, extra))

    def _run(
        self,
        args: Sequence[str] | None,
        prog_name: str,
        complete_var: str | None,
        extra: dict[str, Any],
    ) -> int:
        try:
            result = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            click.echo("lakequeue: interrupted", err=True)
            return INTERRUPTED
        except Problem as problem:
            return _tell(problem)
        except BrokenPipeError:
            # The reader of our output has gone (`| head`); Python would complain at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except Exception as error:
            problem_found = _as_problem(error)
            if problem_found is None:
                raise
            return _tell(problem_found)
        return result if isinstance(result, int) else 0


def _tell(problem: Problem) -> int:
    click.echo(f"lakequeue: {problem.message}", err=True)
    if problem.hint:
        click.echo(f"hint: {problem.hint}", err=True)
    return problem.exit_code


def _as_problem(error: Exception) -> Problem | None:
    """Errors of the database that no one further in had words for."""
    psycopg = sys.modules.get("psycopg")
    if psycopg is None or not isinstance(error, psycopg.Error):
        return None
    logging.getLogger(__name__).debug("database error", exc_info=error)
    state = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
    message = error.diag.message_primary or str(error).strip() or type(error).__name__
    return Problem(f"database error: {message}{state}", error.diag.message_hint)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """End through the `with` blocks, so that the embedded server is left properly."""
    del frame
    raise SystemExit(128 + number)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lakequeue")
def cli() -> None:
    """A task orchestrator in Postgres: documents in, structured results out.

    Without LAKEQUEUE_DATABASE_URL, commands use a PostgreSQL of their own, which they start when
    needed and stop when the last of them ends.
    """
    settings = Settings.from_environment()
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if settings.lakebase_endpoint is not None and settings.database_url is not None:
        from lakequeue import database, lakebase

        database.log_in_with(lakebase.Login(settings.lakebase_endpoint))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)


def main() -> None:
    """Entry point of the program `lakequeue`."""
    cli()

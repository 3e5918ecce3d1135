"""Settings from the environment, in one place.

`Settings.from_environment()` reads them once; nothing else reads these variables, except the
program of a run, whose environment its relay builds. `describe()` gives README's table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from lakequeue.errors import WrongUse

RELAYS = ("local", "databricks")
LOG_LEVELS = ("debug", "info", "warning", "error")
SECRET_LENGTH = 32


@dataclass(frozen=True)
class Variable:
    """One line of the configuration table."""

    name: str
    default: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the environment says; command-line options win over it."""

    database_url: str | None = field(
        default=None,
        metadata={
            "variable": "LAKEQUEUE_DATABASE_URL",
            "default": "none: the embedded PostgreSQL",
            "meaning": "Database to use, as a URL or libpq string; what it leaves out comes from "
            "the PG* variables (`postgresql://` alone takes all of them)",
        },
    )
    lakebase_endpoint: str | None = field(
        default=None,
        metadata={
            "variable": "LAKEBASE_ENDPOINT",
            "default": "none: the address, PGPASSWORD or ~/.pgpass has the password",
            "meaning": "Lakebase endpoint (projects/…/branches/…/endpoints/…) whose short-lived "
            "OAuth credentials are the database password; the address then holds none",
        },
    )
    data_dir: Path | None = field(
        default=None,
        metadata={
            "variable": "LAKEQUEUE_DATA_DIR",
            "default": "the user's data folder, e.g. ~/.local/share/lakequeue",
            "meaning": "Folder of everything kept on this machine: the embedded PostgreSQL, "
            "traces, uploads, logs of runs, the web part's secret",
        },
    )
    chat_url: str | None = field(
        default=None,
        metadata={
            "variable": "LAKEQUEUE_CHAT_URL",
            "default": "none: the simulator",
            "meaning": "Base URL of an OpenAI-compatible chat endpoint, e.g. https://host/v1",
        },
    )
    chat_token: str | None = field(
        default=None,
        repr=False,
        metadata={
            "variable": "LAKEQUEUE_CHAT_TOKEN",
            "default": "none",
            "meaning": "Bearer token for that endpoint",
        },
    )
    relay: str = field(
        default="local",
        metadata={
            "variable": "LAKEQUEUE_RELAY",
            "default": "local",
            "meaning": "Where a worker runs agents: `local` (processes on this machine) or "
            "`databricks` (runs of the agent's job; the login comes from DATABRICKS_HOST, "
            "DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET, which an app has by itself)",
        },
    )
    callback_url: str | None = field(
        default=None,
        metadata={
            "variable": "LAKEQUEUE_CALLBACK_URL",
            "default": "none: agents confirm by SQL",
            "meaning": "The webhook that runs confirm to, of jobs and of `lakequeue worker`, e.g. "
            "https://host/api/callbacks; `lakequeue up` hands its own to runs on this machine",
        },
    )
    volume: Path | None = field(
        default=None,
        metadata={
            "variable": "LAKEQUEUE_VOLUME",
            "default": "volume/ in the data folder",
            "meaning": "Folder where uploaded documents are kept; agents read them there. "
            "/Volumes/CATALOG/SCHEMA/VOLUME, where it is no folder of this machine, is reached "
            "through the workspace",
        },
    )
    warehouse: str | None = field(
        default=None,
        metadata={
            "variable": "LAKEQUEUE_WAREHOUSE",
            "default": "none: compute cost stays unknown",
            "meaning": "Id of the SQL warehouse by which compute cost is read from system.billing",
        },
    )
    experiment_id: str | None = field(
        default=None,
        metadata={
            "variable": "MLFLOW_EXPERIMENT_ID",
            "default": "none: usage of job runs is what their agents report",
            "meaning": "Id of the workspace's MLflow experiment to which job runs write traces; "
            "runs on this machine write to a store in the data folder",
        },
    )
    document_folders: tuple[Path, ...] = field(
        default=(),
        metadata={
            "variable": "LAKEQUEUE_DOCUMENT_FOLDERS",
            "default": "none (on the embedded database: any)",
            "meaning": "Further folders, separated as in PATH, from which pages show originals",
        },
    )
    port: int = field(
        default=8080,
        metadata={
            "variable": "DATABRICKS_APP_PORT",
            "default": "8080",
            "meaning": "Port of the web part where `--port` is not given",
        },
    )
    hosts: tuple[str, ...] = field(
        default=(),
        metadata={
            "variable": "LAKEQUEUE_HOSTS",
            "default": "this machine's names where only it is listened to, else any",
            "meaning": "Host names under which the web part answers, separated by commas",
        },
    )
    secret_key: str | None = field(
        default=None,
        repr=False,
        metadata={
            "variable": "LAKEQUEUE_SECRET_KEY",
            "default": "a file in the data folder",
            "meaning": "Key that signs the web part's cookies, at least 32 characters; for where "
            "the data folder does not last, or several web parts serve the same pages",
        },
    )
    identity_header: str | None = field(
        default=None,
        metadata={
            "variable": "LAKEQUEUE_IDENTITY_HEADER",
            "default": "none: the user who runs the web part",
            "meaning": "Header that names the person, set by a trusted proxy in front of the web "
            "part, e.g. X-Forwarded-Email",
        },
    )
    max_streams: int = field(
        default=200,
        metadata={
            "variable": "LAKEQUEUE_MAX_STREAMS",
            "default": "200",
            "meaning": "Pages that are updated at once; further ones poll every 10 seconds",
        },
    )
    log_level: str = field(
        default="warning",
        metadata={
            "variable": "LAKEQUEUE_LOG_LEVEL",
            "default": "warning (worker: info)",
            "meaning": "Least severe messages on stderr: " + ", ".join(LOG_LEVELS),
        },
    )
    log_level_given: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read every variable; an empty one counts as not set."""
        env = os.environ if environment is None else environment
        given = {
            item.name: env[item.metadata["variable"]].strip()
            for item in fields(cls)
            if "variable" in item.metadata and env.get(item.metadata["variable"], "").strip()
        }
        level = given.get("log_level", "warning").lower()
        if level not in LOG_LEVELS:
            raise WrongUse(
                f"LAKEQUEUE_LOG_LEVEL is {level!r}", f"use one of {', '.join(LOG_LEVELS)}"
            )
        relay = given.get("relay", "local").lower()
        if relay not in RELAYS:
            raise WrongUse(f"LAKEQUEUE_RELAY is {relay!r}", f"use one of {', '.join(RELAYS)}")
        if len(given.get("secret_key", "x" * SECRET_LENGTH)) < SECRET_LENGTH:
            raise WrongUse(
                "LAKEQUEUE_SECRET_KEY is too short",
                f"use at least {SECRET_LENGTH} random characters, e.g. of `openssl rand -hex 32`",
            )
        return cls(
            database_url=given.get("database_url"),
            lakebase_endpoint=given.get("lakebase_endpoint"),
            data_dir=_path(given.get("data_dir")),
            chat_url=given.get("chat_url"),
            chat_token=given.get("chat_token"),
            relay=relay,
            callback_url=given.get("callback_url"),
            volume=_path(given.get("volume")),
            warehouse=given.get("warehouse"),
            experiment_id=given.get("experiment_id"),
            document_folders=tuple(
                Path(part).expanduser()
                for part in given.get("document_folders", "").split(os.pathsep)
                if part
            ),
            port=_count("DATABRICKS_APP_PORT", given.get("port"), 8080, 65535),
            hosts=tuple(part.strip() for part in given.get("hosts", "").split(",") if part.strip()),
            secret_key=given.get("secret_key"),
            identity_header=given.get("identity_header"),
            max_streams=_count("LAKEQUEUE_MAX_STREAMS", given.get("max_streams"), 200, 5000),
            log_level=level,
            log_level_given="log_level" in given,
        )


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None


def _count(variable: str, text: str | None, default: int, most: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise WrongUse(f"{variable} is {text!r}", f"use a number from 1 to {most}")
    return int(text)


def describe() -> Iterator[Variable]:
    """Every variable with its default and meaning, in the order of the table."""
    for item in fields(Settings):
        if "variable" in item.metadata:
            yield Variable(
                item.metadata["variable"], item.metadata["default"], item.metadata["meaning"]
            )

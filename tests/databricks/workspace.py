"""A Databricks workspace for tests: a small HTTP server that keeps state and fails on demand.

The real databricks-sdk talks to it over a real socket on this machine. It knows what Lakequeue
uses: OAuth for a service principal, job runs, files in volumes, database credentials, secrets, SQL
warehouses, MLflow's traces. It is the proxy before an app and before model endpoints, too. Where
the real one is strict (values that must be text, folders that must exist, tokens that end) it is
strict too.

    with running() as workspace:
        job = workspace.add_job()
        workspace.fault("jobs/run-now", drop=True)      # the run is made, the answer is lost
        …
        workspace.runs[run_id].end("RUN_EXECUTION_ERROR")

Time is `workspace.now`, in seconds since 1970, which a test sets; by default the real one.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import json
import re
import secrets
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from lakequeue.agents import OPTIONAL_PARAMETERS, REQUIRED_PARAMETERS
from tests.databricks.tracking import NoSuchTrace, Tracking

CLIENT_ID = "11111111-2222-3333-4444-555555555555"
CLIENT_SECRET = "the-service-principal's-secret"
JOB_PRINCIPAL = "66666666-2222-3333-4444-555555555555"
WORKSPACE_ID = "7700112233445566"
TOKEN_SECONDS = 3600
PAGE_LIMIT = 24
LONGEST_IDEMPOTENCY_TOKEN = 64
MOST_PARAMETER_CHARACTERS = 10_000
ENDPOINT_NAME = re.compile(
    r"projects/[a-z][a-z0-9-]*/branches/[a-z][a-z0-9-]*/endpoints/[a-z0-9-]+"
)

TERMINATIONS = {
    "SUCCESS": ("SUCCESS", "SUCCESS"),
    "USER_CANCELED": ("CANCELED", "SUCCESS"),
    "CANCELED": ("CANCELED", "SUCCESS"),
    "RUN_EXECUTION_ERROR": ("FAILED", "CLIENT_ERROR"),
    "INTERNAL_ERROR": ("FAILED", "INTERNAL_ERROR"),
    "CLOUD_FAILURE": ("FAILED", "CLOUD_FAILURE"),
}
"""Result state and type of a termination code; any other code is a failed client error."""


class Refusal(Exception):
    """An error as the workspace answers it."""

    def __init__(self, status: int, code: str, message: str, *, oauth: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {"error_code": code, "message": message, "details": []}
        if oauth:
            self.body = {"error": code, "error_description": message}


@dataclass
class Fault:
    """What goes wrong with the next calls whose path contains `path`."""

    path: str
    method: str | None = None
    status: int | None = None
    """Answered in place of doing it."""
    retry_after: int | None = None
    drop: bool = False
    """Done, but the connection is closed without an answer."""
    hold: threading.Event | None = None
    """Done, but the answer waits for this."""
    times: int | None = 1
    """How often; None: until it is taken away."""
    until: float | None = None
    """Before this time of the workspace only."""


@dataclass
class Job:
    """A job; `queue` says whether runs over the limit wait or are skipped."""

    job_id: int
    max_concurrent_runs: int = 1000
    queue: bool = True
    max_retries: int = 0
    parameters: tuple[str, ...] = (*REQUIRED_PARAMETERS, *OPTIONAL_PARAMETERS)
    disable_auto_optimization: bool = True

    def as_json(self) -> dict[str, Any]:
        return {
            "job_id": self.job_id,
            "run_as_user_name": JOB_PRINCIPAL,
            "settings": {
                "name": "document parser",
                "max_concurrent_runs": self.max_concurrent_runs,
                "queue": {"enabled": self.queue},
                "tasks": [
                    {
                        "task_key": "agent",
                        "max_retries": self.max_retries,
                        "environment_key": "default",
                        "disable_auto_optimization": self.disable_auto_optimization,
                    }
                ],
                "parameters": [{"name": name, "default": ""} for name in self.parameters],
            },
        }


@dataclass
class FakeRun:
    """One run, in the words of the Jobs API; tests change it."""

    run_id: int
    job_id: int
    number: int
    token: str | None
    parameters: dict[str, str]
    start_time: int
    life_cycle: str = "RUNNING"
    state: str = "RUNNING"
    result: str | None = None
    code: str | None = None
    kind: str | None = None
    message: str = ""
    deleted: bool = False

    @property
    def active(self) -> bool:
        return self.life_cycle not in ("TERMINATED", "SKIPPED", "INTERNAL_ERROR")

    def become(self, life_cycle: str, state: str | None = None) -> None:
        """Another state, known to the SDK or not."""
        self.life_cycle, self.state = life_cycle, state or life_cycle

    def end(self, code: str = "SUCCESS", message: str = "", life_cycle: str = "TERMINATED") -> None:
        """Terminate with this code."""
        self.life_cycle, self.state = life_cycle, "TERMINATED"
        self.result, self.kind = TERMINATIONS.get(code, ("FAILED", "CLIENT_ERROR"))
        self.code, self.message = code, message

    def as_json(self, host: str) -> dict[str, Any]:
        state: dict[str, Any] = {
            "life_cycle_state": self.life_cycle,
            "state_message": self.message,
            "user_cancelled_or_timedout": self.code == "USER_CANCELED",
        }
        status: dict[str, Any] = {"state": self.state}
        if self.result is not None:
            state["result_state"] = self.result
            status["termination_details"] = {
                "code": self.code,
                "type": self.kind,
                "message": self.message,
            }
        return {
            "run_id": self.run_id,
            "job_id": self.job_id,
            "number_in_job": self.number,
            "original_attempt_run_id": self.run_id,
            "state": state,
            "status": status,
            "start_time": self.start_time,
            "end_time": 0 if self.active else self.start_time + 1000,
            "run_page_url": f"{host}/#job/{self.job_id}/run/{self.run_id}",
            "run_type": "JOB_RUN",
            "format": "MULTI_TASK",
            "job_parameters": [
                {"name": name, "default": "", "value": value}
                for name, value in self.parameters.items()
            ],
            "tasks": [{"run_id": self.run_id + 1, "task_key": "agent"}],
        }


@dataclass
class _Upload:
    path: str
    overwrite: bool
    parts: dict[int, bytes] = field(default_factory=dict)


class Workspace:
    """The state, and the calls that change it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.now: Callable[[], float] = time.time
        self.host = ""
        self.jobs: dict[int, Job] = {}
        self.runs: dict[int, FakeRun] = {}
        self.on_run: Callable[[FakeRun], None] | None = None
        """Called when a run is made, before that is answered."""
        self.weather: Callable[[str], dict[str, Any] | None] | None = None
        """Gives the fault, if any, of a call of the Jobs API at this path."""
        self.cancels_at_once = True
        self.more: dict[str, Callable[[str, str, dict[str, Any]], dict[str, Any]]] = {}
        """Further APIs: by the beginning of their paths, what answers method, path and body."""
        self.volumes = {"/Volumes/main/lakequeue/documents"}
        self.folders: set[str] = set()
        self.files: dict[str, bytes] = {}
        self.credentials: dict[str, float] = {}
        """Database tokens and when they end."""
        self.endpoints: set[str] = {"projects/lakequeue/branches/production/endpoints/primary"}
        self.secrets: dict[str, str] = {}
        """SCOPE/KEY to value."""
        self.tracking = Tracking()
        self.warehouses = {"abc123": "RUNNING"}
        self.readable_tables = {"system.billing.usage", "system.billing.list_prices"}
        self.statements: list[str] = []
        self.behind: dict[str, str] = {}
        """What lies behind the workspace's proxies: a path's beginning, and the address there."""
        self.passed: list[tuple[str, dict[str, str]]] = []
        """Path and headers of what was passed on there."""
        self.calls: list[tuple[str, str]] = []
        """Method and path of every call but those of logging in."""
        self.largest_body = 0
        self._tokens: set[str] = set()
        self._uploads: dict[str, _Upload] = {}
        self._downloads: dict[str, str] = {}
        self._faults: list[Fault] = []
        self._last_run = 1_000_000_000_000

    # --- for tests ----------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """What an app of this workspace finds in its environment."""
        return {
            "DATABRICKS_HOST": self.host,
            "DATABRICKS_CLIENT_ID": CLIENT_ID,
            "DATABRICKS_CLIENT_SECRET": CLIENT_SECRET,
            "DATABRICKS_WORKSPACE_ID": WORKSPACE_ID,
        }

    def add_job(self, max_concurrent_runs: int = 1000, queue: bool = True) -> int:
        """Make a job and give its id."""
        job_id = 500_000 + len(self.jobs)
        self.jobs[job_id] = Job(job_id, max_concurrent_runs, queue)
        return job_id

    def fault(self, path: str, **what: Any) -> Fault:
        """Let something go wrong from now on."""
        made = Fault(path, **what)
        with self.lock:
            self._faults.append(made)
        return made

    def mend(self) -> None:
        """Let nothing go wrong any more."""
        with self.lock:
            self._faults.clear()

    def called(self, path: str) -> int:
        """How many calls had this in their path."""
        with self.lock:
            return sum(path in called for _, called in self.calls)

    def accepts(self, password: str) -> bool:
        """Whether the database lets this token in now."""
        return self.credentials.get(password, 0.0) > self.now()

    # --- logging in ---------------------------------------------------------------------------

    def issue_token(self, authorization: str, form: dict[str, str]) -> dict[str, Any]:
        """OAuth, client credentials."""
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if authorization != f"Basic {expected}" or form.get("grant_type") != "client_credentials":
            raise Refusal(401, "invalid_client", "Client authentication failed", oauth=True)
        token = f"oauth-{secrets.token_hex(8)}"
        self._tokens.add(token)
        return {"access_token": token, "token_type": "Bearer", "expires_in": TOKEN_SECONDS}

    def end_logins(self) -> None:
        """Accept no OAuth token that was issued so far."""
        self._tokens.clear()

    def check(self, authorization: str) -> None:
        """Refuse who has no valid token."""
        token = authorization.removeprefix("Bearer ")
        if token not in self._tokens:
            raise Refusal(401, "UNAUTHENTICATED", "Credential was not sent or was invalid")

    def take_fault(self, method: str, path: str) -> Fault | None:
        """The fault that this call meets."""
        with self.lock:
            for fault in self._faults:
                if fault.path not in path or fault.method not in (None, method):
                    continue
                if fault.until is not None and self.now() >= fault.until:
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                return fault
            if self.weather is not None and "/jobs/" in path and (what := self.weather(path)):
                return Fault(path, **what)
        return None

    # --- jobs ---------------------------------------------------------------------------------

    def run_now(self, body: dict[str, Any]) -> dict[str, Any]:
        """POST jobs/run-now."""
        token = body.get("idempotency_token")
        parameters = body.get("job_parameters") or {}
        if token is not None and len(token) > LONGEST_IDEMPOTENCY_TOKEN:
            raise Refusal(400, "INVALID_PARAMETER_VALUE", "The idempotency token is too long")
        if not all(isinstance(value, str) for value in parameters.values()):
            raise Refusal(400, "MALFORMED_REQUEST", "Job parameters must be strings")
        if len(json.dumps(parameters)) > MOST_PARAMETER_CHARACTERS:
            raise Refusal(400, "INVALID_PARAMETER_VALUE", "The job parameters are too long")
        with self.lock:
            job = self.jobs.get(body["job_id"])
            if job is None:
                message = f"Job {body['job_id']} does not exist."
                raise Refusal(400, "INVALID_PARAMETER_VALUE", message)
            for known in self.runs.values():
                if token is not None and known.token == token:
                    if known.deleted:
                        message = f"Run {known.run_id} of this token was deleted"
                        raise Refusal(400, "INVALID_STATE", message)
                    return {"run_id": known.run_id, "number_in_job": known.number}
            self._last_run += 7
            active = sum(run.active for run in self.runs.values() if run.job_id == job.job_id)
            run = FakeRun(
                run_id=self._last_run,
                job_id=job.job_id,
                number=self._last_run,
                token=token,
                parameters=parameters,
                start_time=int(self.now() * 1000),
            )
            if active >= job.max_concurrent_runs:
                if job.queue:
                    run.become("QUEUED")
                else:
                    run.end("MAX_CONCURRENT_RUNS_EXCEEDED", life_cycle="SKIPPED")
                    run.result = "MAXIMUM_CONCURRENT_RUNS_REACHED"
            self.runs[run.run_id] = run
        if self.on_run is not None:
            self.on_run(run)
        return {"run_id": run.run_id, "number_in_job": run.number}

    def get_job(self, job_id: int) -> dict[str, Any]:
        """GET jobs/get."""
        if job_id not in self.jobs:
            raise Refusal(400, "INVALID_PARAMETER_VALUE", f"Job {job_id} does not exist.")
        return self.jobs[job_id].as_json()

    def get_run(self, run_id: int) -> dict[str, Any]:
        """GET jobs/runs/get."""
        return self._known(run_id).as_json(self.host)

    def list_runs(self, query: dict[str, str]) -> dict[str, Any]:
        """GET jobs/runs/list, newest first."""
        limit = int(query.get("limit", 20)) or PAGE_LIMIT
        if limit > PAGE_LIMIT:
            raise Refusal(400, "INVALID_PARAMETER_VALUE", f"limit must be at most {PAGE_LIMIT}")
        with self.lock:
            found = [
                run
                for run in sorted(self.runs.values(), key=lambda run: -run.run_id)
                if not run.deleted
                and (run.active or query.get("active_only") != "true")
                and query.get("job_id") in (None, str(run.job_id))
            ]
        start = int(query.get("page_token", 0))
        page = found[start : start + limit]
        answer: dict[str, Any] = {"has_more": start + limit < len(found)}
        if page:
            answer["runs"] = [
                {name: value for name, value in run.as_json(self.host).items() if name != "tasks"}
                for run in page
            ]
        if answer["has_more"]:
            answer["next_page_token"] = str(start + limit)
        return answer

    def cancel_run(self, run_id: int) -> dict[str, Any]:
        """POST jobs/runs/cancel: it ends later, or at once."""
        run = self._known(run_id)
        if run.active:
            if self.cancels_at_once:
                run.end("USER_CANCELED", "Run cancelled.")
            else:
                run.become("TERMINATING")
        return {}

    def _known(self, run_id: int) -> FakeRun:
        run = self.runs.get(run_id)
        if run is None or run.deleted:
            raise Refusal(400, "INVALID_PARAMETER_VALUE", f"Run {run_id} does not exist.")
        return run

    # --- files --------------------------------------------------------------------------------

    def make_folder(self, path: str) -> None:
        """PUT fs/directories: with its parents, any number of times."""
        self._in_volume(path)
        with self.lock:
            while path not in self.volumes:
                self.folders.add(path)
                path = path.rsplit("/", 1)[0]

    def put_file(self, path: str, content: bytes, overwrite: bool) -> None:
        """PUT fs/files, or the end of an upload in parts."""
        self._in_volume(path)
        parent = path.rsplit("/", 1)[0]
        with self.lock:
            if parent not in self.folders | self.volumes:
                raise Refusal(404, "NOT_FOUND", f"The directory {parent} does not exist.")
            if path in self.files and not overwrite:
                raise Refusal(409, "ALREADY_EXISTS", f"The file {path} already exists.")
            self.files[path] = content

    def get_file(self, path: str) -> bytes:
        """GET and HEAD fs/files."""
        if path not in self.files:
            raise Refusal(404, "NOT_FOUND", f"The file {path} does not exist.")
        return self.files[path]

    def delete_file(self, path: str) -> None:
        """DELETE fs/files."""
        self.get_file(path)
        del self.files[path]

    def list_folder(self, path: str) -> dict[str, Any]:
        """GET fs/directories: what lies in it, one level."""
        path = path.rstrip("/")
        if path not in self.folders | self.volumes:
            raise Refusal(404, "NOT_FOUND", f"The directory {path} does not exist.")
        with self.lock:
            found = [(name, False) for name in self.files] + [(name, True) for name in self.folders]
        return {
            "contents": [
                {"path": name, "name": name.rsplit("/", 1)[1], "is_directory": folder}
                for name, folder in sorted(found)
                if name.rsplit("/", 1)[0] == path
            ]
        }

    def _in_volume(self, path: str) -> None:
        if not any(path == root or path.startswith(f"{root}/") for root in self.volumes):
            raise Refusal(404, "NOT_FOUND", f"There is no volume for {path}.")

    def begin_upload(self, path: str, overwrite: bool) -> dict[str, Any]:
        """POST fs/files?action=initiate-upload."""
        self._in_volume(path)
        session = secrets.token_hex(8)
        self._uploads[session] = _Upload(path, overwrite)
        return {"multipart_upload": {"session_token": session}}

    def part_addresses(self, body: dict[str, Any]) -> dict[str, Any]:
        """POST fs/create-upload-part-urls."""
        first, count = body["start_part_number"], body["count"]
        return {
            "upload_part_urls": [
                {
                    "url": f"{self.host}/storage/parts/{body['session_token']}/{number}",
                    "part_number": number,
                    "headers": [{"name": "X-Storage", "value": "yes"}],
                }
                for number in range(first, first + count)
            ]
        }

    def put_part(self, session: str, number: int, content: bytes) -> str:
        """PUT to the storage."""
        self._uploads[session].parts[number] = content
        return hashlib.md5(content).hexdigest()

    def end_upload(self, session: str, body: dict[str, Any]) -> None:
        """POST fs/files?action=complete-upload: the parts are what they were sent as."""
        upload = self._uploads.pop(session)
        for part in body["parts"]:
            if hashlib.md5(upload.parts[part["part_number"]]).hexdigest() != part["etag"]:
                raise Refusal(400, "INVALID_PARAMETER_VALUE", "A part is not what was sent")
        ordered = [upload.parts[part["part_number"]] for part in body["parts"]]
        self.put_file(upload.path, b"".join(ordered), upload.overwrite)

    def download_address(self, path: str) -> dict[str, Any]:
        """POST fs/create-download-url."""
        self.get_file(path)
        key = secrets.token_hex(8)
        self._downloads[key] = path
        return {"url": f"{self.host}/storage/files/{key}", "headers": []}

    def downloaded(self, key: str) -> bytes:
        """GET from the storage."""
        return self.files[self._downloads[key]]

    # --- warehouses ---------------------------------------------------------------------------

    def execute(self, body: dict[str, Any]) -> dict[str, Any]:
        """POST sql/statements: what a statement reads must be granted."""
        if body["warehouse_id"] not in self.warehouses:
            raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", "The warehouse does not exist.")
        self.statements.append(body["statement"])
        for table in re.findall(r"system\.\w+\.\w+", body["statement"]):
            if table not in self.readable_tables:
                message = f"[INSUFFICIENT_PERMISSIONS] User does not have USE SCHEMA on {table}"
                error = {"error_code": "BAD_REQUEST", "message": message}
                return {"statement_id": "1", "status": {"state": "FAILED", "error": error}}
        return {
            "statement_id": "1",
            "status": {"state": "SUCCEEDED"},
            "manifest": {"schema": {"columns": []}},
            "result": {"data_array": [["1"]]},
        }

    # --- database -----------------------------------------------------------------------------

    def database_credential(self, body: dict[str, Any]) -> dict[str, Any]:
        """POST postgres/credentials."""
        endpoint = body.get("endpoint", "")
        if not ENDPOINT_NAME.fullmatch(endpoint):
            raise Refusal(400, "INVALID_PARAMETER_VALUE", f"Invalid endpoint name: {endpoint}")
        if endpoint not in self.endpoints:
            raise Refusal(404, "NOT_FOUND", f"Endpoint {endpoint} does not exist.")
        seconds = float(body.get("ttl", f"{TOKEN_SECONDS}s").removesuffix("s"))
        if not 300 <= seconds <= TOKEN_SECONDS:
            raise Refusal(400, "INVALID_PARAMETER_VALUE", "ttl must be 300 s to 3600 s")
        token = f"database-{secrets.token_hex(8)}"
        ends = self.now() + seconds
        self.credentials[token] = ends
        text = datetime.datetime.fromtimestamp(ends, datetime.UTC).isoformat()
        return {"token": token, "expire_time": text.replace("+00:00", "Z")}


class _Handler(BaseHTTPRequestHandler):
    """Takes a request apart, lets a fault happen, and answers."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer goes out in one piece, else it waits for the other side's ACK
    workspace: ClassVar[Workspace]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def _do(self) -> None:
        parts = urlsplit(self.path)
        self._path = unquote(parts.path)
        self._query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self._body = self._read_body()
        self.workspace.largest_body = max(self.workspace.largest_body, len(self._body))
        workspace = self.workspace
        fault = None
        try:
            if not self._open():
                workspace.calls.append((self.command, self._path))
                workspace.check(self.headers.get("Authorization", ""))
            fault = workspace.take_fault(self.command, self._path)
            if fault is not None and fault.status is not None:
                raise Refusal(fault.status, _code(fault.status), "the test wanted it so")
            status, headers, content = self._route()
        except Refusal as refusal:
            status, headers, content = refusal.status, {}, json.dumps(refusal.body).encode()
            if fault is not None and fault.retry_after is not None:
                headers = {"Retry-After": str(fault.retry_after)}
        if fault is not None and fault.hold is not None:
            fault.hold.wait(30)
        if fault is not None and fault.drop:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._send(status, headers, content)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _do  # noqa: N815

    def _open(self) -> bool:
        """Whether this needs no token: logging in, and addresses that are signed."""
        return self._path.startswith(("/.well-known/", "/oidc/", "/storage/"))

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while (length := int(self.rfile.readline(), 16)) > 0:
                parts.append(self.rfile.read(length))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        length = int(self.headers.get("Content-Length", 0))
        if len(body := self.rfile.read(length)) < length:
            raise ConnectionResetError("the caller was killed while it sent this")
        return body

    def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _json(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self._body or b"{}")
        return body

    def _route(self) -> tuple[int, dict[str, str], bytes]:
        for prefix, handle in (
            *((prefix, self._further) for prefix in self.workspace.more),
            ("/.well-known/databricks-config", self._discover),
            ("/oidc/", self._log_in),
            ("/storage/", self._storage),
            ("/api/2.2/jobs/", self._jobs),
            ("/api/2.0/fs/", self._file_system),
            ("/api/2.0/preview/scim/v2/Me", self._me),
            ("/api/2.0/postgres/credentials", self._credentials),
            ("/api/2.0/secrets/get", self._secret),
            ("/api/2.0/mlflow/", self._tracking),
            ("/api/3.0/mlflow/traces", self._tracking),
            ("/api/2.0/permissions/experiments/", self._permissions),
            ("/api/2.0/sql/", self._sql),
            *((path, self._pass_on) for path in self.workspace.behind),
        ):
            if self._path.startswith(prefix):
                answer = handle()
                if isinstance(answer, tuple):
                    return answer
                return 200, {}, b"" if answer is None else json.dumps(answer).encode()
        raise Refusal(404, "ENDPOINT_NOT_FOUND", f"No API found for {self.command} {self._path}")

    def _discover(self) -> dict[str, Any]:
        return {
            "oidc_endpoint": f"{self.workspace.host}/oidc",
            "workspace_id": WORKSPACE_ID,
            "cloud": "AWS",
        }

    def _log_in(self) -> dict[str, Any]:
        if self._path.endswith("/.well-known/oauth-authorization-server"):
            return {
                "token_endpoint": f"{self.workspace.host}/oidc/v1/token",
                "authorization_endpoint": f"{self.workspace.host}/oidc/v1/authorize",
            }
        form = {name: values[-1] for name, values in parse_qs(self._body.decode()).items()}
        return self.workspace.issue_token(self.headers.get("Authorization", ""), form)

    def _jobs(self) -> dict[str, Any]:
        call = self._path.removeprefix("/api/2.2/jobs/")
        if call == "run-now":
            return self.workspace.run_now(self._json())
        if call == "get":
            return self.workspace.get_job(int(self._query["job_id"]))
        if call == "runs/get":
            return self.workspace.get_run(int(self._query["run_id"]))
        if call == "runs/list":
            return self.workspace.list_runs(self._query)
        if call == "runs/cancel":
            return self.workspace.cancel_run(self._json()["run_id"])
        raise Refusal(404, "ENDPOINT_NOT_FOUND", f"No API found for jobs/{call}")

    def _further(self) -> dict[str, Any]:
        more = self.workspace.more
        handle = next(more[prefix] for prefix in more if self._path.startswith(prefix))
        return handle(self.command, self._path, self._json())

    def _me(self) -> dict[str, Any]:
        return {"id": "1", "userName": CLIENT_ID, "displayName": "lakequeue", "active": True}

    def _credentials(self) -> dict[str, Any]:
        return self.workspace.database_credential(self._json())

    def _secret(self) -> dict[str, Any]:
        place = f"{self._query['scope']}/{self._query['key']}"
        if place not in self.workspace.secrets:
            raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", f"There is no secret {place}")
        value = base64.b64encode(self.workspace.secrets[place].encode()).decode()
        return {"key": self._query["key"], "value": value}

    def _tracking(self) -> dict[str, Any]:
        tracking = self.workspace.tracking
        call = self._path.partition("/mlflow/")[2]
        if not (tracking.writable if call == "traces" else tracking.readable):
            raise Refusal(403, "PERMISSION_DENIED", "You lack the permission on the experiment")
        try:
            if call == "experiments/get":
                return tracking.experiment(self._query["experiment_id"])
            if call == "traces":
                return tracking.start(self._json())
            if call == "traces/search":
                return tracking.search(self._json())
        except NoSuchTrace as missing:
            raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", missing.args[0]) from missing
        if found := re.fullmatch(r"traces/([^/]+)/credentials-for-data-upload", call):
            address = f"{self.workspace.host}/storage/spans/{found[1]}"
            return {
                "credential_info": {
                    "type": "AWS_PRESIGNED_URL",
                    "signed_uri": address,
                    "path": "traces.json",
                    "headers": [],
                }
            }
        raise Refusal(404, "ENDPOINT_NOT_FOUND", f"No API found for mlflow/{call}")

    def _permissions(self) -> dict[str, Any]:
        editors = self.workspace.tracking.editors
        if editors is None:
            raise Refusal(403, "PERMISSION_DENIED", "You may not see permissions")
        return {
            "access_control_list": [
                {
                    "service_principal_name": name,
                    "all_permissions": [{"permission_level": "CAN_EDIT", "inherited": False}],
                }
                for name in editors
            ]
        }

    def _sql(self) -> dict[str, Any]:
        call = self._path.removeprefix("/api/2.0/sql/")
        if call == "statements":
            return self.workspace.execute(self._json())
        name = call.removeprefix("warehouses/")
        if name not in self.workspace.warehouses:
            raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", f"SQL warehouse {name} does not exist.")
        return {"id": name, "name": "small", "state": self.workspace.warehouses[name]}

    def _pass_on(self) -> tuple[int, dict[str, str], bytes]:
        """What an app's proxy does: the token stays here, and who calls is told in headers."""
        path = next(path for path in self.workspace.behind if self._path.startswith(path))
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("authorization", "host", "connection", "content-length")
        }
        headers |= {"X-Forwarded-User": CLIENT_ID, "X-Forwarded-Email": CLIENT_ID}
        self.workspace.passed.append((self._path, headers))
        request = urllib.request.Request(
            self.workspace.behind[path] + self._path.removeprefix(path),
            data=self._body or None,
            headers=headers,
            method=self.command,
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as response:
                kind = response.headers.get("Content-Type", "text/plain")
                return response.status, {"Content-Type": kind}, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, {}, error.read()

    def _storage(self) -> tuple[int, dict[str, str], bytes]:
        if "Authorization" in self.headers:
            raise Refusal(400, "INVALID", "A signed address takes no token")
        kind, *rest = self._path.removeprefix("/storage/").split("/")
        if kind == "spans":
            self.workspace.tracking.spans[rest[0]] = self._body
            return 200, {}, b""
        if kind == "parts":
            etag = self.workspace.put_part(rest[0], int(rest[1]), self._body)
            return 200, {"ETag": etag}, b""
        return self._content(self.workspace.downloaded(rest[0]))

    def _file_system(self) -> tuple[int, dict[str, str], bytes] | dict[str, Any] | None:
        workspace = self.workspace
        call, _, path = self._path.removeprefix("/api/2.0/fs/").partition("/")
        path = f"/{path}"
        if call == "create-upload-part-urls":
            return workspace.part_addresses(self._json())
        if call == "create-download-url":
            return workspace.download_address(self._query["path"])
        if call == "directories" and self.command == "PUT":
            workspace.make_folder(path)
            return None
        if call == "directories":
            return workspace.list_folder(path)
        if call != "files":
            raise Refusal(404, "ENDPOINT_NOT_FOUND", f"No API found for fs/{call}")
        overwrite = self._query.get("overwrite") == "true"
        action = self._query.get("action")
        if action == "initiate-upload":
            return workspace.begin_upload(path, overwrite)
        if action == "complete-upload":
            workspace.end_upload(self._query["session_token"], self._json())
            return None
        if self.command == "PUT":
            workspace.put_file(path, self._body, overwrite)
            return None
        if self.command == "DELETE":
            workspace.delete_file(path)
            return None
        return self._content(workspace.get_file(path))

    def _content(self, content: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {
            "Content-Type": "application/octet-stream",
            "Last-Modified": "Sun, 29 Nov 2026 12:00:00 GMT",
        }
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            return 200, headers, content
        first, last = int(asked[1]), int(asked[2] or len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return 206, headers, content[first : last + 1]


def _code(status: int) -> str:
    return {
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        409: "ALREADY_EXISTS",
        429: "REQUEST_LIMIT_EXCEEDED",
        503: "TEMPORARILY_UNAVAILABLE",
    }.get(status, "INTERNAL_ERROR" if status >= 500 else "INVALID_PARAMETER_VALUE")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextlib.contextmanager
def running() -> Iterator[Workspace]:
    """A workspace on a free port of this machine, as long as the block lasts."""
    workspace = Workspace()
    server = _Server(("127.0.0.1", 0), type("_Bound", (_Handler,), {"workspace": workspace}))
    workspace.host = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield workspace
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)

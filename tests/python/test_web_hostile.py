"""Hostile requests, made from the routes and the parameters that the code reads, so that a new one
is met too: never a fault of ours, never anything internal, always words and the safe headers.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
from flask.testing import FlaskClient
from psycopg.types.json import Json
from werkzeug.routing import Rule

import lakequeue.web
from lakequeue import database as db
from lakequeue.web import callbacks
from lakequeue.web.guard import HEADERS, SAFE_METHODS
from tests.python.test_web_actions import everything
from tests.python.test_web_pages import busy_queue
from tests.python.web_server import AGENT, Queue, application, token_of
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

WEB = Path(lakequeue.web.__file__).parent
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW")


def read_by_the_code(pattern: str) -> list[str]:
    """The names that the code reads from addresses or forms."""
    sources = [file.read_text() for file in sorted(WEB.glob("*.py"))]
    return sorted({name for source in sources for name in re.findall(pattern, source)})


PARAMETERS = read_by_the_code(r'(?:args|form|arguments)(?:\.get(?:list)?\(|, )"(\w+)"')
FIELDS = read_by_the_code(r'form\.get(?:list)?\("(\w+)"')
VALUES: tuple[bytes, ...] = (
    b"", b" ", b"0", b"-1", b"+5", b"1_0", b"1e400", b"NaN", b"9223372036854775807",
    b"9223372036854775808", b"9" * 5000, "\u0663".encode(), "\u00b2".encode(),
    b"0001-01-01", b"9999-12-31", b"10000-01-01", b"infinity", b"2026-W01-1",
    b"0001-01-01T00:00:00+14:00_1", b"9999-12-31T23:59:59.999999-14:00_9223372036854775807",
    b"a\x00b", b"\xed\xa0\x80", b"\xff\xfe", "\u202e\u2066\ufeff".encode(), b"a\r\nX-Evil: 1",
    b"' or 1=1; --", b"%_\\", b"{{7*7}}${7*7}", b"../../../etc/passwd", b"//evil.example/",
    b"javascript:alert(1)", b"x" * 8000, AGENT.encode(), b"all", b"yes", b"completed",
)  # fmt: skip
PATHS: dict[str, tuple[bytes, ...]] = {
    "_Key": (b"0", b"1", b"-1", b"9223372036854775807", b"9223372036854775808", b"9" * 5000,
             b"1.0", "\u0663".encode(), b"a\x00", b"\xff", b"..", b"%2e%2e", b"1;x=1"),
    "IntegerConverter": (b"0", b"1", b"99999999999999999999", b"-1", b"\xff"),
    "PathConverter": (b"style.css", b"../app.py", b"..%2f..%2fapp.py", b"/etc/passwd", b"a\x00b",
                      b"\xff\xfe", b"x" * 5000, b"."),
}  # fmt: skip
INTERNAL = re.compile(
    r"Traceback|psycopg|werkzeug|site-packages|\.py\b|/work/|/tmp/|PL/pgSQL|CONTEXT:|DETAIL:"
    r"|relation \"|\bcolumn \"|syntax error|Exception\b|[a-z]Error\b|object at 0x"
)


@pytest.fixture
def queue(pristine: Database) -> Queue:
    return Queue(pristine)


@pytest.fixture
def client(queue: Queue, tmp_path: Path) -> Iterator[FlaskClient]:
    with application(queue.database, tmp_path, warehouse=None) as app:
        yield app.test_client()


def rules(client: FlaskClient) -> list[Rule]:
    return sorted(client.application.url_map.iter_rules(), key=lambda rule: rule.rule)


def paths(rule: Rule) -> list[str]:
    """Addresses of a rule: as they should be, then with each hostile value in each place."""
    names = [str(name) for name in rule._converters]
    kinds = [PATHS[type(rule._converters[name]).__name__] for name in names]
    rows = [["1"] * len(names)] if "filename" not in names else [["style.css"]]
    for place, kind in enumerate(kinds):
        rows += [[*rows[0][:place], quote_from_bytes(v), *rows[0][place + 1 :]] for v in kind]
    found = []
    fixed = re.split(r"<[^>]+>", rule.rule)
    for row in rows:
        pairs = zip(fixed, [*row, ""], strict=True)
        found.append("".join(part for pair in pairs for part in pair))
    return found


def ask(client: FlaskClient, method: str, path: str, query: bytes = b"", **more: Any) -> Any:
    """A request, whose answer is looked at as every answer must be."""
    environ = {"QUERY_STRING": query.decode("latin-1")} if query else {}
    response = client.open(path, method=method, environ_overrides=environ, **more)
    where = f"{method} {path} {query[:200]!r} {str(more)[:200]}"
    if response.mimetype == "text/event-stream":
        response.close()
        return response
    assert response.status_code < 500 or response.status_code == 501, (
        f"{where}: {response.status_code} {response.get_data(as_text=True)[-500:]}"
    )
    for name, value in HEADERS.items():
        assert response.headers[name] == value, where
    assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"], where
    assert "X-Evil" not in response.headers
    body = response.get_data()
    if 300 <= response.status_code < 400 and response.status_code != 304:
        assert re.match(r"(http://localhost)?/(?![/\\])", response.headers["Location"]), (
            f"{where}: leads away"
        )
    elif response.status_code >= 400 and method != "HEAD":
        said = body.decode()
        assert not INTERNAL.search(said), f"{where}: {INTERNAL.search(said)}"
        if path.startswith("/api/"):
            assert len(strict(body)["error"]["message"]) > 10, where
        elif response.mimetype == "text/html":
            assert "<h1>" in said, where
    elif response.mimetype == "application/json" and body:
        strict(body)
    return response


def strict(body: bytes) -> Any:
    """JSON as every reader takes it."""

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(body, parse_constant=refuse)


def test_every_route_answers_every_method(queue: Queue, client: FlaskClient) -> None:
    busy_queue(queue)
    token = token_of(client)
    allowed: dict[str, set[str]] = {}
    for rule in rules(client):
        allowed.setdefault(rule.rule, set()).update(rule.methods or ())
    for rule in rules(client):
        for path in paths(rule):
            ask(client, "GET", path)
        for method in METHODS:
            response = ask(client, method, paths(rule)[0], data={"csrf_token": token})
            if method not in allowed[rule.rule]:
                assert response.status_code in (405, 400), (method, rule.rule)
                if response.status_code == 405:
                    assert set(response.allow) == allowed[rule.rule]


def test_every_parameter_takes_every_value(queue: Queue, client: FlaskClient) -> None:
    """Each value of each parameter goes to the routes that read, in turn."""
    busy_queue(queue)
    assert {"find", "after", "before", "from", "customer", "kind", "by", "width"} <= set(PARAMETERS)
    readers = itertools.cycle(
        [
            paths(rule)[0]
            for rule in rules(client)
            if "GET" in (rule.methods or ()) and rule.endpoint not in ("static", "api.events")
        ]
    )
    for name, value in itertools.product(PARAMETERS, VALUES):
        query = name.encode() + b"=" + quote_from_bytes(value).encode()
        ask(client, "GET", next(readers), query)
    for path in {next(readers) for _ in range(100)}:
        ask(client, "GET", path, b"\xff\xfe=%ff&&=&a&%00=%00&range=7d&range=all")
        ask(client, "GET", path, b"&".join(b"agent=x%d" % n for n in range(500)))
        ask(client, "GET", path, headers={"Cookie": "lakequeue=" + "x" * 5000})
        ask(client, "GET", path, headers={"Cookie": 'lakequeue="\\000\xff"; ;=; a'})
        ask(client, "GET", path, headers={"Accept": "application/json;q=NaN, \xff"})
        ask(client, "GET", path, headers={"Range": "bytes=9-1", "If-None-Match": '"\xff'})
        ask(client, "GET", path, headers={"Last-Event-ID": "\xff-" + "9" * 5000})


def writers(client: FlaskClient) -> list[tuple[str, str]]:
    """Every route that writes; the webhook, whose permission is the attempt's token, apart."""
    return [
        (method, paths(rule)[0])
        for rule in rules(client)
        for method in sorted((rule.methods or set()) - set(SAFE_METHODS))
        if rule.endpoint != "callbacks.receive"
    ]


def test_no_route_writes_for_another_site(
    queue: Queue, client: FlaskClient, tmp_path: Path
) -> None:
    busy_queue(queue)
    queue.call("check_home")
    token = token_of(client)
    before = everything(queue.database, tmp_path)
    assert len(writers(client)) >= 5
    fields = dict.fromkeys(PARAMETERS, "1") | {"agent": AGENT, "confirmed": "yes", "all": "yes"}
    for method, path in writers(client):
        for action in ("cancel", "pause"):
            data = {**fields, "action": action}
            for wrong in ({}, {"csrf_token": ""}, {"csrf_token": "\u00ff"}, {"csrf_token": "x"}):
                response = ask(client, method, path, data={**data, **wrong})
                assert response.status_code == 403, (path, wrong)
            for header in (
                {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
                {"Sec-Fetch-Site": "\xff"}, {"Origin": "https://evil.example"},
                {"Origin": "http://[bad"}, {"Origin": "http://localhost.evil.example"},
            ):  # fmt: skip
                response = ask(
                    client, method, path, data={**data, "csrf_token": token}, headers=header
                )
                assert response.status_code == 403, (path, header)
            session = {"Cookie": "lakequeue=eyJjc3JmX3Rva2VuIjoieCJ9.aaaaaa.bbbbbb"}
            other = client.application.test_client()
            response = ask(other, method, path, data={**data, "csrf_token": "x"}, headers=session)
            assert response.status_code == 403, "a cookie that we have not signed"
    assert everything(queue.database, tmp_path) == before


def test_every_field_of_every_form_takes_every_value(
    queue: Queue, client: FlaskClient, tmp_path: Path
) -> None:
    busy_queue(queue)
    data: dict[str, Any] = {"csrf_token": token_of(client), "agent": AGENT, "task": "1"}
    turns = itertools.cycle(("cancel", "retry", "reprocess", "priority", "pause", "resume"))
    assert {"task", "reason", "priority", "agent", "customer", "fetch"} <= set(FIELDS)
    places = itertools.cycle(writers(client))
    for name, value in itertools.product(FIELDS, VALUES[:-4]):
        form = {"action": next(turns), "confirmed": "yes", **data, name: "HERE"}
        body = "&".join(f"{key}={text}" for key, text in form.items()).encode()
        body = body.replace(b"HERE", quote_from_bytes(value).encode())
        for method, path in (("POST", "/tasks/actions"), next(places)):
            ask(client, method, path, data=body, content_type="application/x-www-form-urlencoded")
    for method, path in writers(client):
        for kind, body in (
            ("application/json", b"{}"), ("multipart/form-data", b"--x"), ("text/plain", b"\xff"),
            ("multipart/form-data; boundary=" + "x" * 1000, b"x"), ("\xff/\xff; charset=\xff", b""),
            ("multipart/form-data; boundary=x", b"--x\r\n\r\n\r\n--x--"),
            ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="a'),
            ("multipart/form-data; boundary=x",
             b'--x\r\nContent-Disposition: form-data; name="a"; filename="\xff\x00"\r\n\r\n--x--'),
            ("application/x-www-form-urlencoded", b"a&" * 6000),
            ("application/x-www-form-urlencoded", b"a=" + b"x" * 2_000_000),
            ("application/x-www-form-urlencoded; charset=utf-7", b"a=+AD4-"),
        ):  # fmt: skip
            ask(client, method, path, data=body, content_type=kind,
                headers={"X-CSRF-Token": token_of(client)})  # fmt: skip
    assert list((tmp_path / "volume" / "incoming").iterdir()) == []


# JSON as text, since Python would not write all of it.
JSON_VALUES = (
    "null", "true", "0", "-1", "-0.0", "1.5", "1e400", "1e-400", "NaN", "-Infinity", "9" * 5000,
    "9223372036854775807", "9223372036854775808", "1e308", '""', '" "', '"\\u0000"', '"\\ud800"',
    '"\\udc00\\ud800"', '"\\u202e\\u2066"', '"success"', '"' + "x" * 100_000 + '"', "{}", "[]",
    "[null]", '{"a": 1, "a": 2}', '{"\\u0000": {"\\ud800": NaN}}', "[" * 900 + "]" * 900,
    "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, '"1 day"', "86401", "1e17",
)  # fmt: skip


def test_every_key_of_a_report_takes_every_value(queue: Queue, client: FlaskClient) -> None:
    """By itself or in an array. Whatever was accepted can be shown, and no worker stops for it."""
    batch = queue.value("create_extraction", name="all of it")
    ends = {"error": "failure", "error_class": "failure", "retry_after": "rate_limited"}
    shown: set[int] = set()
    places = itertools.cycle((False, True))
    with db.connect(queue.database.conninfo()) as owner:

        def claim() -> dict[str, Any]:
            db.call(owner, "enqueue_task", agent=AGENT, document_path="/a.pdf", extraction=batch)
            (row,) = db.call(owner, "dequeue_tasks", worker="w", batch_size=1)
            return row

        row = claim()
        for key, value in itertools.product(callbacks.PARAMETERS, JSON_VALUES):
            report = {
                "attempt": row["attempt_id"],
                "token": row["callback_token"],
                "outcome": ends.get(key, "success"),
            }
            body = json.dumps({**report, key: "HERE"}).replace('"HERE"', value)
            if next(places):
                body = f"[{body}]"
            response = ask(client, "POST", "/api/callbacks", data=body.encode(),
                           content_type="application/json")  # fmt: skip
            if b'"accepted"' in response.get_data():
                if key == "result":  # the others are on the batch's pages, too
                    shown.add(row["task_id"])
                owner.execute(
                    """update lakequeue.agents set paused_at = null, paused_by = null,
                         breaker_failures = 0, retry_cap = '1 day', retry_base = '1 day'"""
                )
                row = claim()
    assert len(shown) > 10
    for task in shown:
        ask(client, "GET", f"/tasks/{task}")
        ask(client, "GET", f"/api/tasks/{task}")
    for path in ("/", "/tasks", "/activity", "/costs", f"/extractions/{batch}",
                 f"/extractions/{batch}.csv", f"/extractions/{batch}.json", "/api/metrics",
                 f"/api/extractions/{batch}"):  # fmt: skip
        assert ask(client, "GET", path).status_code == 200


def test_headers_of_a_proxy_are_believed_only_where_one_is_known(
    queue: Queue, tmp_path: Path
) -> None:
    spoofed = {
        "X-Forwarded-User": "eve", "X-Forwarded-Email": "eve", "Remote-User": "eve",
        "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "Script-Name": "/evil",
        "X-Forwarded-Prefix": "/evil", "X-Original-Url": "/upload", "X-Rewrite-Url": "/upload",
        "X-Http-Method-Override": "DELETE", "Forwarded": "host=evil.example",
        "Referer": "https://evil.example/",
    }  # fmt: skip
    with application(queue.database, tmp_path) as app:
        client = app.test_client()
        data = {"csrf_token": token_of(client), "agent": AGENT, "action": "pause", "next": "//evil"}
        response = ask(client, "POST", "/agents/actions", data=data, headers=spoofed)
        assert response.headers["Location"] == f"/agents#agent-{AGENT}"
        assert queue.call("agent_status")[0]["paused_by"] == "ann"
        page = ask(client, "GET", "/", headers=spoofed).get_data(as_text=True)
        assert "evil" not in page
    with application(queue.database, tmp_path, identity_header="X-Forwarded-Email") as app:
        client = app.test_client()
        for sent in ({}, {"X-Forwarded-Email": "eve"}, {"X-Forwarded-User": "ann"},
                     {"X-Forwarded-Email": "ann, eve"}, {"X-Forwarded-Email": "a" * 300},
                     {"X-Forwarded-Email": "\xff\xed"}):  # fmt: skip
            data = {"csrf_token": token_of(client), "agent": AGENT, "action": "resume"}
            response = ask(client, "POST", "/agents/actions", data=data, headers=sent)
            assert response.status_code == 403, sent


NAME = "\u202eMARK\u2066END"


class Loose(HTMLParser):
    """Texts in which words of ours follow a name that may turn them about."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.found: list[str] = []
        self.seen = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.seen += NAME in data
        follows = data.rpartition(NAME)[2] if NAME in data else ""
        if re.search(r"\w", follows) and self.inside[-1] not in ("bdi", "option", "title"):
            self.found.append(f"<{self.inside[-1]}> {data.strip()!r}")


def test_a_name_cannot_turn_the_words_around_it(queue: Queue, client: FlaskClient) -> None:
    queue.call("configure_agent", agent=NAME, model_endpoint=f"of {NAME}", max_tpm=10_000)
    key = queue.value("create_extraction", name=NAME, customer=NAME, submitted_by=NAME)
    documents = Json([{"document_path": f"/d/{NAME}", "name": NAME, "priority": 9}] * 3)
    queue.call("enqueue_tasks", agent=NAME, documents=documents, extraction=key)
    row = queue.claim()
    attempt = {"attempt": row["attempt_id"], "token": row["callback_token"]}
    queue.call("report_rate_limit", **attempt)
    result = {"document_type": NAME, "language": NAME, "model": NAME, "notes": [NAME],
              "fields": {NAME: {"value": NAME, "confidence": 0.1, "page": 1}},
              "pages": [{"number": 1, "text": NAME, "characters": 9}]}  # fmt: skip
    queue.call("record_callback", **attempt, outcome="success", result=Json(result))
    queue.call("cancel_tasks", tasks=[row["task_id"] + 1], reason=NAME, actor=NAME)
    queue.call("pause_agent", agent=NAME, reason=NAME, actor=NAME)
    for path in ("/", "/tasks", "/agents", "/extractions", f"/extractions/{key}", "/activity",
                 f"/tasks/{row['task_id']}", f"/tasks/{row['task_id'] + 1}", "/upload",
                 f"/tasks?find={NAME}", f"/agents?agent={NAME}", "/costs?by=customer"):  # fmt: skip
        page = Loose(ask(client, "GET", path).get_data(as_text=True))
        assert page.seen, path
        assert not page.found, path

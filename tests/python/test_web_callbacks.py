"""The webhook: whose word counts, what is refused and how, and that repeats change nothing."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from psycopg.types.json import Json

from lakequeue.agents.document_parser.webhook import Webhook
from lakequeue.web import callbacks
from tests.python.web_server import Queue, application, as_json
from tests.python.web_server import server as web_server
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture
def queue(pristine: Database) -> Queue:
    return Queue(pristine)


@pytest.fixture
def client(queue: Queue, tmp_path: Path) -> Iterator[FlaskClient]:
    with application(queue.database, tmp_path) as app:
        yield app.test_client()


def report(row: dict[str, Any], outcome: str = "success", **more: Any) -> dict[str, Any]:
    return {
        "attempt": row["attempt_id"],
        "token": row["callback_token"],
        "outcome": outcome,
        **more,
    }


def claimed(queue: Queue) -> dict[str, Any]:
    queue.enqueue()
    return queue.claim()


def ledger(queue: Queue) -> list[tuple[Any, ...]]:
    """Everything that a report may change."""
    return queue.database.query(
        """select t.status::text, a.status::text, a.input_tokens, a.llm_cost, a.reported_at,
                  (select count(*) from lakequeue.results),
                  (select count(*) from lakequeue.task_deltas)
             from lakequeue.tasks t join lakequeue.task_attempts a on a.task_id = t.id order by 1"""
    )


def test_a_report_and_its_repeat(queue: Queue, client: FlaskClient) -> None:
    row = claimed(queue)
    body = report(row, result={"fields": {}}, confidence=0.5, input_tokens=10, output_tokens=2,
                  cached_tokens=1, llm_cost=0.001, usage_complete=True, run_id=7,
                  trace_id="tr-1")  # fmt: skip
    first = client.post("/api/callbacks", json=body)
    assert (first.status_code, as_json(first)) == (
        200, {"attempt": row["attempt_id"], "answer": "accepted"},
    )  # fmt: skip
    before = ledger(queue)
    again = client.post("/api/callbacks", json=body)
    assert (again.status_code, as_json(again)["answer"]) == (200, "duplicate")
    assert ledger(queue) == before
    assert queue.statuses() == {"completed": 1}


def test_each_outcome(queue: Queue, client: FlaskClient) -> None:
    for outcome, more, expected in (
        ("failure", {"error": "it broke", "error_class": "x"}, "enqueued"),
        ("permanent_failure", {"error": {"message": "no"}}, "failed"),
        ("rate_limited", {"retry_after": 12.5}, "enqueued"),
        ("success", {}, "processing"),
    ):
        row = claimed(queue)
        answer = client.post("/api/callbacks", json=report(row, outcome, **more))
        assert answer.status_code == 200, answer.get_data()
        status = queue.database.value(
            "select status::text from lakequeue.tasks where id = %s", row["task_id"]
        )
        assert status == expected, outcome
        queue.database.query("update lakequeue.agents set paused_at = null")
        queue.call("cancel_task", task=row["task_id"])
    assert as_json(answer)["answer"] == "result_missing"


def test_no_token_in_a_log_or_an_answer(
    queue: Queue, client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    row, other = claimed(queue), claimed(queue)
    good = report(row)
    said = "".join(
        client.post("/api/callbacks", data=body, content_type="application/json").get_data(True)
        for body in (
            json.dumps({**good, "attempt": other["attempt_id"]}),
            json.dumps({**good, "confidence": 7, "result": {}}),
            json.dumps([{**good, "outcome": "x"}, {**good, "run_id": "x"}]),
            json.dumps({**good, "more": 1}),
            json.dumps(good)[:-1],
            json.dumps({**good, "token": [good["token"]]}),
            json.dumps(good),
        )
    )
    assert said.count("error") > 4
    for text in (said, caplog.text):
        assert row["callback_token"] not in text


def test_what_is_refused_changes_nothing(queue: Queue, client: FlaskClient) -> None:
    row = claimed(queue)
    before = ledger(queue)
    good = report(row)
    for body, status, code in (
        ({**good, "token": "wrong"}, 401, "LQ401"),
        ({**good, "token": "x" * 100_000}, 401, "LQ401"),
        ({**good, "attempt": 0}, 404, "LQ404"),
        ({**good, "attempt": 2**63 - 1}, 404, "LQ404"),
        ({**good, "outcome": "done"}, 400, "LQ400"),
        ({**good, "result": {}, "confidence": 7}, 400, "LQ400"),
        ({**good, "result": {}, "input_tokens": -1}, 400, "LQ400"),
        ({**good, "attempt": 2**64}, 422, "wrong_shape"),
        ({**good, "attempt": "1"}, 422, "wrong_shape"),
        ({**good, "attempt": True}, 422, "wrong_shape"),
        ({**good, "attempt": 1.5}, 422, "wrong_shape"),
        ({**good, "token": 7}, 422, "wrong_shape"),
        ({**good, "usage_complete": "yes"}, 422, "wrong_shape"),
        ({**good, "retry_after": "1 day; drop table"}, 422, "wrong_shape"),
        ({**good, "retry_after": -1}, 422, "wrong_shape"),
        ({**good, "surprise": 1}, 422, "wrong_shape"),
        ({"attempt": row["attempt_id"], "outcome": "success"}, 422, "wrong_shape"),
        ({**good, "token": None}, 422, "wrong_shape"),
        ("a text", 422, "wrong_shape"),
        (7, 422, "wrong_shape"),
        ([7], 422, "wrong_shape"),
    ):
        answer = client.post("/api/callbacks", json=body)
        assert (answer.status_code, as_json(answer)["error"]["code"]) == (status, code), body
        assert as_json(answer)["error"]["message"]
    assert ledger(queue) == before


def test_bodies_that_are_no_json(queue: Queue, client: FlaskClient) -> None:
    row = claimed(queue)

    def post(data: bytes, content_type: str = "application/json") -> tuple[int, str]:
        answer = client.post("/api/callbacks", data=data, content_type=content_type)
        return answer.status_code, as_json(answer)["error"]["code"]

    assert post(b"") == (422, "wrong_shape")
    assert post(b"{") == (422, "wrong_shape")
    assert post(b"\xff\xfe") == (422, "wrong_shape")
    assert post(b"[" * 100_000) == (422, "wrong_shape")
    nested = b"[" * 900 + b"]" * 900
    body = json.dumps(report(row, "failure"))[:-1].encode() + b', "error": ' + nested + b"}"
    answer = client.post("/api/callbacks", data=body, content_type="application/json")
    assert answer.status_code in (200, 422)
    for number in (b"NaN", b"Infinity", b"1e999999"):
        body = json.dumps(report(row))[:-1].encode() + b', "result": ' + number + b"}"
        assert post(body)[0] == 422, number
        for key in (b"confidence", b"llm_cost", b"input_tokens", b"retry_after"):
            body = json.dumps(report(row))[:-1].encode() + b', "' + key + b'": ' + number + b"}"
            assert post(body)[0] == 422, (key, number)
    assert post(json.dumps(report(row)).encode(), "text/plain") == (415, "not_json")
    assert post(b"attempt=1", "application/x-www-form-urlencoded") == (415, "not_json")
    assert client.get("/api/callbacks").status_code == 405


def test_a_body_that_is_too_large(
    queue: Queue, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "MOST_BYTES", 10_000)
    row = claimed(queue)
    answer = client.post("/api/callbacks", json=report(row, result={"text": "x" * 20_000}))
    assert (answer.status_code, as_json(answer)["error"]["code"]) == (413, "too_large")
    assert queue.statuses() == {"processing": 1}


def test_text_that_postgres_cannot_store_loses_no_result(queue: Queue, client: FlaskClient) -> None:
    row = claimed(queue)
    result = {"text": "a\x00b", "half": "\ud800", "emoji": "\U0001f600"}
    body = report(row, result=result, trace_id="t\x00r")
    data = json.dumps(body).encode()
    answer = client.post("/api/callbacks", data=data, content_type="application/json")
    assert as_json(answer)["answer"] == "accepted"
    stored = queue.database.value("select result from lakequeue.results")
    assert stored["emoji"] == "\U0001f600"
    assert "\x00" not in stored["text"]


def test_many_reports_at_once_are_answered_one_by_one(queue: Queue, client: FlaskClient) -> None:
    rows = [claimed(queue) for _ in range(3)]
    body = [
        report(rows[0], result={}),
        {**report(rows[1], result={}), "token": "wrong"},
        report(rows[2], "rate_limited", retry_after=3),
    ]
    answer = client.post("/api/callbacks", json=body)
    assert answer.status_code == 200
    found = as_json(answer)
    assert [row["answer"] for row in found] == ["accepted", "refused", "accepted"]
    assert [row["attempt"] for row in found] == [row["attempt_id"] for row in rows]
    assert "token" in found[1]["message"]
    assert client.post("/api/callbacks", json=[]).status_code == 200
    assert client.post("/api/callbacks", json=[report(rows[0])] * 1001).status_code == 422


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ('"outcome": "success", "result": {"a": 1e999}', "finite"),
        ('"outcome": "success", "result": {"a": -1e999}', "finite"),
        ('"outcome": "success", "result": {"a": NaN}', "finite"),
        ('"outcome": "success", "result": {"a": 1' + "0" * 5000 + "}", "finite"),
        ('"outcome": "success", "result": {"a": 1' + "0" * 4000 + "}", "10^308"),
        ('"outcome": "rate_limited", "retry_after": true', "'retry_after' must be a number of sec"),
        ('"outcome": "rate_limited", "retry_after": -1', "'retry_after' must be a number of sec"),
        ('"outcome": "rate_limited", "retry_after": 86401', "'retry_after' must be a number of se"),
        ('"outcome": "rate_limited", "retry_after": [1]', "'retry_after' must be a number of sec"),
    ],
)
def test_one_bad_report_stops_none_of_the_others(
    queue: Queue, client: FlaskClient, bad: str, words: str
) -> None:
    rows = [claimed(queue) for _ in range(3)]
    first, last = (json.dumps(report(row, result={"a": 1.5})) for row in (rows[0], rows[2]))
    told = {name: report(rows[1])[name] for name in ("attempt", "token")}
    body = f"[{first}, {json.dumps(told)[:-1]}, {bad}}}, {last}]"
    answer = client.post("/api/callbacks", data=body, content_type="application/json")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    found = as_json(answer)
    assert [row["answer"] for row in found] == ["accepted", "refused", "accepted"]
    assert [row["attempt"] for row in found] == [row["attempt_id"] for row in rows]
    assert words in found[1]["message"]
    assert queue.statuses() == {"completed": 2, "processing": 1}
    single = f"{json.dumps(told)[:-1]}, {bad}}}"
    answer = client.post("/api/callbacks", data=single, content_type="application/json")
    assert answer.status_code == 422, "alone it is refused in the same words"
    assert words in as_json(answer)["error"]["message"]
    assert queue.statuses() == {"completed": 2, "processing": 1}


def test_faults_of_ours_show_nothing_internal(queue: Queue, client: FlaskClient) -> None:
    row = claimed(queue)
    queue.database.query("drop function lakequeue._end_attempt")
    answer = client.post("/api/callbacks", json=report(row, "failure"))
    assert answer.status_code in (500, 503)
    said = answer.get_data(as_text=True)
    assert "_end_attempt" not in said
    assert "Traceback" not in said


# --- over the network -----------------------------------------------------------------------------


def post(address: str, body: Any) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"{address}/api/callbacks",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_the_same_report_50_times_from_10_threads_changes_one_task_once(
    queue: Queue, tmp_path: Path
) -> None:
    row = claimed(queue)
    body = report(row, result={"fields": {}}, input_tokens=100, output_tokens=10, llm_cost=0.5)
    with web_server(queue.database, tmp_path) as (address, _):
        barrier = threading.Barrier(10)

        def five_times(_: int) -> list[str]:
            barrier.wait()
            answers = [post(address, body) for _ in range(5)]
            assert {status for status, _ in answers} == {200}
            return [answer["answer"] for _, answer in answers]

        with ThreadPoolExecutor(10) as threads:
            said = [answer for each in threads.map(five_times, range(10)) for answer in each]
    assert sorted(said) == ["accepted"] + ["duplicate"] * 49
    assert queue.statuses() == {"completed": 1}
    assert queue.database.query("select count(*) from lakequeue.results") == [(1,)]
    usage = queue.database.query(
        "select sum(input_tokens), sum(output_tokens), sum(llm_cost) from lakequeue.task_attempts"
    )
    assert [tuple(map(float, line)) for line in usage] == [(100, 10, 0.5)]
    (metrics,) = (r for r in queue.call("queue_metrics") if r["status"] == "completed")
    assert (metrics["tasks"], metrics["input_tokens"]) == (1, 100)


def test_an_agent_confirms_by_the_webhook(queue: Queue, tmp_path: Path) -> None:
    row = claimed(queue)
    parameters = {
        **report(row), "result": Json({"fields": {}}), "llm_cost": None, "input_tokens": 3,
        "output_tokens": 1, "retry_after": None, "error": None,
    }  # fmt: skip
    with web_server(queue.database, tmp_path) as (address, _):
        webhook = Webhook(f"{address}/api/callbacks")
        assert webhook.confirm(parameters) == "accepted"
        assert webhook.confirm(parameters) == "duplicate"
        assert webhook.confirm({**parameters, "token": "wrong"}) is None, (
            "the database's word counts"
        )
        assert Webhook(f"{address}/nothing").confirm(parameters) is None
    assert webhook.confirm(parameters) is None, "nobody answers any more"
    assert queue.statuses() == {"completed": 1}


def test_what_an_agent_does_not_take_for_an_answer(queue: Queue) -> None:
    answers = [(200, b"<html>log in</html>", {}), (200, b"[]", {}), (200, b"{}", {}),
               (302, b"", {"Location": "/elsewhere"}), (500, b"{}", {})]  # fmt: skip
    with odd_server(answers) as (url, asked):
        for _ in answers:
            assert Webhook(url).confirm({"attempt": 1, "token": "t"}) is None
        assert asked == ["/"] * len(answers), "no redirect was followed"
    assert Webhook("file:///etc/passwd").confirm({}) is None
    assert Webhook("nonsense").confirm({}) is None


@contextlib.contextmanager
def odd_server(answers: list[tuple[int, bytes, dict[str, str]]]) -> Iterator[tuple[str, list[str]]]:
    left = list(answers)
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            status, body, headers = left.pop(0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    httpd = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}/", asked
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()

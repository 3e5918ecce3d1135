"""What operators do from pages: it does what it says, to what fits now, and only if they may."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from psycopg.types.json import Json

from lakequeue.web import actions, guard
from lakequeue.web.reads import Reads
from tests.python.test_web_pages import HOSTILE, enqueue_around, text
from tests.python.web_server import AGENT, Queue, application, as_json, pdf, token_of
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture
def queue(pristine: Database) -> Queue:
    return Queue(pristine)


@pytest.fixture
def client(queue: Queue, tmp_path: Path) -> Iterator[FlaskClient]:
    with application(queue.database, tmp_path) as app:
        yield app.test_client()


def post(client: FlaskClient, path: str, **fields: Any) -> Any:
    return client.post(path, data={"csrf_token": token_of(client), **fields})


def said(client: FlaskClient, response: Any) -> str:
    """What the page after an action says of it."""
    assert response.status_code == 303, response.get_data(as_text=True)
    return text(client.get(response.headers["Location"]))


def test_a_whole_filter_is_counted_then_done_then_told(queue: Queue, client: FlaskClient) -> None:
    documents = [{"document_path": f"/d/{n}.pdf"} for n in range(450)]
    queue.call("enqueue_tasks", agent=AGENT, documents=Json(documents), customer="acme")
    queue.enqueue("/d/other.pdf", customer="other")
    done = queue.complete({"fields": {}})
    asked = post(client, "/tasks/actions?customer=acme", action="cancel", all="yes")
    assert asked.status_code == 200
    page = text(asked)
    assert "Cancel 449 tasks?" in page
    assert "Not concerned, and left as they are: 1 completed" in page
    assert queue.statuses()["enqueued"] == 450, "nothing is done before it is confirmed"

    queue.claim()  # meanwhile a worker takes one
    answer = post(
        client, "/tasks/actions?customer=acme",
        action="cancel", all="yes", confirmed="yes", reason="wrong folder",
    )  # fmt: skip
    assert "customer=acme" in answer.headers["Location"], "back to the same filter"
    assert "448 cancelled, 1 asked to stop." in said(client, answer)
    assert queue.statuses() == {"enqueued": 1, "processing": 1, "completed": 1, "cancelled": 448}
    events = as_json(client.get("/api/activity?kind=cancel_requested&limit=500"))["events"]
    assert len(events) == 449
    assert {(event["actor"], event["login"], event["reason"]) for event in events} == {
        ("ann", "test_web", "wrong folder")
    }
    again = post(client, "/tasks/actions", action="cancel", task=done, confirmed="yes")
    assert f"1 skipped (task {done}, it is completed)" in said(client, again)


def test_retry_and_reprocess_of_a_filter(queue: Queue, client: FlaskClient) -> None:
    for number in range(3):
        queue.enqueue(f"/d/{number}.pdf")
        queue.fail("broken")
    queue.enqueue("/d/done.pdf")
    queue.complete({"fields": {}})
    answer = post(client, "/tasks/actions", action="retry", all="yes", confirmed="yes")
    assert "3 back in the queue." in said(client, answer)
    answer = post(client, "/tasks/actions", action="reprocess", all="yes", confirmed="yes")
    assert "1 reprocessed by new tasks." in said(client, answer)
    assert queue.statuses() == {"enqueued": 4, "completed": 1}
    answer = post(client, "/tasks/actions?find=DONE", action="cancel", all="yes", confirmed="yes")
    assert "1 cancelled." in said(client, answer), "the search is part of the filter"


def test_the_priority_of_what_is_picked(queue: Queue, client: FlaskClient) -> None:
    tasks = [queue.enqueue() for _ in range(3)]
    asked = post(client, "/tasks/actions", action="priority", task=tasks[:2])
    assert "Set the priority of 2 tasks?" in text(asked)
    post(client, "/tasks/actions", action="priority", task=tasks[:2], priority="9", confirmed="yes")
    rows = as_json(client.get("/api/tasks"))["tasks"]
    assert {row["task_id"]: row["priority"] for row in rows} == {
        tasks[0]: 9, tasks[1]: 9, tasks[2]: 5,
    }  # fmt: skip


def test_an_action_on_what_a_search_finds_concerns_all_of_it(
    queue: Queue, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue_around(queue, 1100)
    assert "Cancel 2 tasks?" in text(
        post(client, "/tasks/actions?find=needle", action="cancel", all="yes")
    )
    with monkeypatch.context() as hurried:
        hurried.setattr(actions, "LOOK_SECONDS", 0)
        asked = text(post(client, "/tasks/actions?find=needle", action="priority", all="yes"))
        assert "Set the priority of 1 task or more?" in asked
        assert re.search(r"Looked back to .* only: for older tasks choose days", asked)
        found = post(client, "/tasks/actions?find=NEEDLE.pdf", action="cancel", all="yes")
        assert "None was found so far." in text(found)
        path, fields = form_of(found.get_data(as_text=True), "further")
        assert "Cancel 1 task?" in text(client.post(path, data=fields))
        answer = post(
            client, "/tasks/actions?find=needle", action="cancel", all="yes", confirmed="yes"
        )
        words = r"1 cancelled\. Looked back to .* only: go on for older ones"
        assert re.search(words, said(client, answer))
        path, fields = form_of(
            client.get(answer.headers["Location"]).get_data(as_text=True), "rest"
        )
        answer = client.post(path, data={**fields, "confirmed": "yes"})
        assert "1 cancelled." in said(client, answer), "it goes on behind what was looked at"
    assert queue.statuses() == {"enqueued": 1100, "cancelled": 2}


def test_an_action_is_bounded_and_says_what_is_left(
    queue: Queue, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MOST_TASKS", 50)
    monkeypatch.setattr(actions, "CHUNK", 20)
    documents = [{"document_path": f"/d/{n}.pdf"} for n in range(70)]
    queue.call("enqueue_tasks", agent=AGENT, documents=Json(documents))
    answer = post(client, "/tasks/actions", action="cancel", all="yes", confirmed="yes")
    assert "50 cancelled. There are more" in said(client, answer)
    answer = post(client, "/tasks/actions", action="cancel", all="yes", confirmed="yes")
    assert "20 cancelled." in said(client, answer)
    answer = post(client, "/tasks/actions", action="cancel", all="yes", confirmed="yes")
    assert "No task fits any more." in said(client, answer)


def form_of(page: str, name: str) -> tuple[str, dict[str, str]]:
    """Where a form of a page goes, and what it sends if nobody changes it."""
    found = re.search(rf'<form id="{name}"[^>]* action="([^"]+)"[^>]*>(.*?)</form>', page, re.S)
    assert found is not None, f"no form {name}"
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', found[2])
    return html.unescape(found[1]), {key: html.unescape(value) for key, value in fields}


def go_on(client: FlaskClient, answer: Any) -> Any:
    """Press for the rest on the page after an action, and confirm it on the next one."""
    path, fields = form_of(client.get(answer.headers["Location"]).get_data(as_text=True), "rest")
    asked = client.post(path, data=fields)
    assert asked.status_code == 200
    path, fields = form_of(asked.get_data(as_text=True), "confirm")
    return client.post(path, data={**fields, "reason": "again"})


def test_presses_for_the_rest_reach_each_task_once(
    queue: Queue, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MOST_TASKS", 20)
    monkeypatch.setattr(actions, "CHUNK", 7)
    monkeypatch.setattr(actions, "LIST_PAGE", 9)
    old = [queue.enqueue(f"/d/{number}.pdf", customer="acme") for number in range(45)]
    for _ in old:
        queue.complete({"fields": {}})
    queue.enqueue("/d/other.pdf", customer="other")
    queue.complete({"fields": {}})

    filtered = "/tasks/actions?customer=acme"
    answer = post(client, filtered, action="reprocess", all="yes", confirmed="yes")
    assert "20 reprocessed by new tasks. There are more: go on with the rest." in said(
        client, answer
    )
    for _ in range(20):
        queue.complete({"fields": {}})  # the newest completed ones of all, which cost already
    page = text(client.get(answer.headers["Location"]))
    assert "begins where the action stopped" in page
    answer = go_on(client, answer)
    assert "20 reprocessed by new tasks. There are more" in said(client, answer)
    assert "customer=acme" in answer.headers["Location"]
    answer = go_on(client, answer)
    assert "5 reprocessed by new tasks." in said(client, answer)
    assert 'id="rest"' not in client.get(answer.headers["Location"]).get_data(as_text=True)
    again = queue.database.query(
        "select reprocess_of from lakequeue.tasks where reprocess_of is not null order by 1"
    )
    assert [key for (key,) in again] == old, "each once, and none of the new ones"


def test_the_rest_of_live_tasks_is_reached_by_programs_too(
    queue: Queue, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MOST_TASKS", 20)
    monkeypatch.setattr(actions, "CHUNK", 6)
    monkeypatch.setattr(actions, "LIST_PAGE", 10)
    documents = [{"document_path": f"/d/{n}.pdf"} for n in range(50)]
    queue.call("enqueue_tasks", agent=AGENT, documents=Json(documents))  # all at one instant
    changed: list[int] = []
    following: dict[str, str] = {}
    asked: list[int] = []
    write = Reads.write

    def recorded(self: Reads, function: str, **parameters: Any) -> Any:
        asked.extend(parameters["tasks"])
        return write(self, function, **parameters)

    monkeypatch.setattr(Reads, "write", recorded)
    while True:
        answer = client.post(
            "/tasks/actions",
            data={"csrf_token": token_of(client), "action": "priority", "priority": "9",
                  "all": "yes", "confirmed": "yes", **following},
            headers={"Accept": "application/json"},
        )  # fmt: skip
        found = as_json(answer)
        changed.append(found["outcomes"]["changed"])
        assert found["more"] == (found["next"] is not None)
        if found["next"] is None:
            break
        following = {"from": found["next"]}
        queue.enqueue("/d/newer.pdf")  # is not meant: it came later
    assert changed == [20, 20, 10]
    assert len(asked) == len(set(asked)) == 50
    rows = queue.database.query("select priority, count(*) from lakequeue.tasks group by 1")
    assert dict(rows) == {9: 50, 5: 2}
    page = post(
        client, "/tasks/actions", action="priority", priority="7", all="yes", confirmed="yes"
    )
    assert "priority=7" in page.headers["Location"], "asked for again as it was"
    damaged = post(
        client, "/tasks/actions", action="cancel", all="yes", confirmed="yes", **{"from": "x_1"}
    )
    assert damaged.status_code == 400
    assert queue.statuses() == {"enqueued": 52}


def test_an_action_out_of_time_has_done_something_and_goes_on_behind_it(
    queue: Queue, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "SECONDS", 0)
    monkeypatch.setattr(actions, "CHUNK", 2)
    for number in range(3):
        queue.enqueue(f"/d/{number}.pdf")
    answer = post(client, "/tasks/actions", action="cancel", all="yes", confirmed="yes")
    assert "2 cancelled. There are more" in said(client, answer)
    answer = go_on(client, answer)
    assert "1 cancelled." in said(client, answer)


def test_an_agent_is_paused_and_resumed_with_a_reason(queue: Queue, client: FlaskClient) -> None:
    answer = post(client, "/agents/actions", agent=AGENT, action="pause", reason=HOSTILE)
    assert f"{AGENT} is paused." in said(client, answer)
    (row,) = queue.call("agent_status")
    assert (row["paused_by"], row["pause_reason"]) == ("ann", HOSTILE)
    page = client.get("/activity?kind=agent_paused").get_data(as_text=True)
    assert "<script>alert" not in page
    assert "alert(1)" in page
    post(client, "/agents/actions", agent=AGENT, action="resume", reason="over")
    assert queue.call("agent_status")[0]["paused_at"] is None
    assert post(client, "/agents/actions", agent="nobody", action="pause").status_code == 404


def everything(database: Database, folder: Path) -> Any:
    """All rows of the product's tables, and all files with the times of their folders."""
    tables = database.query(
        "select format('%I.%I', schemaname, tablename) from pg_tables"
        " where schemaname = 'lakequeue' order by 1"
    )
    rows = [database.query(f"select t::text from {table} t order by 1") for (table,) in tables]
    return rows, [(path, path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))]


# By the endpoint of their route, so that a new route without an entry fails.
WRITES_OF: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "actions.on_tasks": [
        ("/tasks/actions", {"action": "cancel", "task": 1, "confirmed": "yes"}),
        ("/tasks/actions", {"action": "retry", "task": 2, "confirmed": "yes"}),
        ("/tasks/actions", {"action": "reprocess", "all": "yes", "confirmed": "yes"}),
        ("/tasks/actions", {"action": "priority", "task": 1, "priority": 9, "confirmed": "yes"}),
    ],
    "actions.on_agents": [
        ("/agents/actions", {"agent": AGENT, "action": "pause", "reason": "x"}),
        ("/agents/actions", {"agent": AGENT, "action": "resume"}),
    ],
    "pages.receive": [("/upload", {"documents": "a.pdf"})],
    "costs.load": [("/costs/compute", {})],
    "costs.cancel": [("/costs/compute/cancel", {"fetch": 1})],
}
WRITES = [write for writes in WRITES_OF.values() for write in writes]


def send(client: FlaskClient, path: str, token: str, fields: dict[str, Any]) -> Any:
    data = {"csrf_token": token, **fields}
    if "documents" in fields:
        data["documents"] = (io.BytesIO(pdf()), fields["documents"])
    return client.post(path, data=data, headers={"Accept": "application/json"})


@pytest.mark.parametrize("person", ["vera", "nobody"])
def test_a_viewer_can_write_by_no_route(queue: Queue, tmp_path: Path, person: str) -> None:
    queue.call("set_person", identity="vera", role="viewer")
    queue.enqueue()
    queue.enqueue()
    queue.complete({"fields": {}})
    queue.call("check_home")  # which notes once where the installation lives
    with application(
        queue.database, tmp_path, identity_header="X-Forwarded-Email", warehouse="w"
    ) as app:
        client = app.test_client()
        client.environ_base["HTTP_X_FORWARDED_EMAIL"] = person
        before = everything(queue.database, tmp_path)
        writing = {
            rule.endpoint: rule.rule
            for rule in app.url_map.iter_rules()
            if not (rule.methods or set()) <= set(guard.SAFE_METHODS)
        }
        # Agents report there: the attempt's token is the permission, whoever the person is.
        report = {"attempt": 1, "token": "made up", "outcome": "success", "result": {}}
        assert client.post(writing.pop("callbacks.receive"), json=report).status_code == 401
        for endpoint in writing:
            for path, fields in WRITES_OF[endpoint]:
                refused = send(client, path, token_of(client), fields)
                assert refused.status_code == 403, (path, fields)
                assert f"{person}" in as_json(refused)["error"]["message"], "not for the token"
        for path in ("/tasks", "/agents", "/tasks/1", "/upload", "/costs"):
            page = client.get(path).get_data(as_text=True)
            assert 'method="post"' not in page, f"nor does {path} offer it"
            told = "An operator is made" if path == "/upload" else "ask an operator to"
            assert told in page, f"{path} says why"
        assert "You cannot upload here" in client.get("/upload").get_data(as_text=True)
        assert everything(queue.database, tmp_path) == before
        client.environ_base["HTTP_X_FORWARDED_EMAIL"] = "ann"
        assert "/actions" in client.get("/tasks").get_data(as_text=True)
        assert send(client, "/upload", token_of(client), {"documents": "a.pdf"}).status_code == 201
        assert everything(queue.database, tmp_path) != before


def test_writes_need_the_token_and_our_own_origin(queue: Queue, client: FlaskClient) -> None:
    for path, fields in WRITES:
        assert send(client, path, "", fields).status_code == 403, path
        foreign = {"csrf_token": token_of(client), **fields}
        refused = client.post(path, data=foreign, headers={"Sec-Fetch-Site": "cross-site"})
        assert refused.status_code == 403, path


def test_what_cannot_be_meant_is_refused(queue: Queue, client: FlaskClient) -> None:
    task = queue.enqueue()
    for path, fields in (
        ("/tasks/actions", {"action": "delete", "task": task}),
        ("/tasks/actions", {"action": "cancel", "task": "x"}),
        ("/tasks/actions", {"action": "cancel", "task": list(range(1001))}),
        ("/tasks/actions?status=done", {"action": "cancel", "all": "yes"}),
        ("/tasks/actions", {"action": "priority", "task": 1, "priority": 12, "confirmed": "yes"}),
        ("/agents/actions", {"agent": AGENT, "action": "delete"}),
    ):  # fmt: skip
        assert post(client, path, **fields).status_code == 400, (path, fields)
    assert "Pick tasks first" in said(client, post(client, "/tasks/actions", action="cancel"))


# --- what can be looked at ----------------------------------------------------------------------


def test_tasks_are_found_by_number_and_by_document(queue: Queue, client: FlaskClient) -> None:
    task = queue.enqueue("/Volumes/a/Invoice 17.pdf")
    queue.enqueue("/Volumes/a/letter.pdf")
    found = client.get(f"/tasks?find={task}")
    assert found.status_code == 302
    assert found.headers["Location"].endswith(f"/tasks/{task}")
    page = client.get("/tasks?find=invoice").get_data(as_text=True)
    assert re.findall(r'<tr id="task-(\d+)"', page) == [str(task)]
    assert len(as_json(client.get("/api/tasks?find=INVOICE"))["tasks"]) == 1
    assert "No task fits this filter" in text(client.get("/tasks?find=%25"))


def lines_of(response: Any) -> list[list[str]]:
    assert response.status_code == 200
    assert response.mimetype == "text/csv"
    return list(csv.reader(io.StringIO(response.get_data(as_text=True).removeprefix("\ufeff"))))


def test_lists_as_csv_are_whole_filtered_and_run_no_formula(
    queue: Queue, client: FlaskClient
) -> None:
    documents = [{"document_path": f"=cmd()/{n}.pdf"} for n in range(1200)]
    queue.call("enqueue_tasks", agent=AGENT, documents=Json(documents), customer="-1+1")
    queue.enqueue("/other.pdf", customer="other")
    rows = lines_of(client.get("/tasks.csv?customer=-1%2B1"))
    assert len(rows) == 1201
    assert rows[1][2:4] == ["'-1+1", "'=cmd()/1199.pdf"]
    queue.call("cancel_tasks", tasks=[1, 2], reason="@SUM(A1)")
    rows = lines_of(client.get("/activity.csv?kind=cancel_requested"))
    assert [row[8] for row in rows] == ["reason", "'@SUM(A1)", "'@SUM(A1)"]


def test_the_event_log_is_filtered_the_same_in_page_json_and_csv(
    queue: Queue, client: FlaskClient
) -> None:
    tasks = [queue.enqueue() for _ in range(60)]
    queue.call("cancel_tasks", tasks=tasks, reason="all of it")
    queue.call("retry_tasks", tasks=tasks[:2])
    queue.call("pause_agent", agent=AGENT, reason="lunch")
    for query, count in (
        ("kind=cancel_requested", 60), ("kind=retried", 2), ("kind=retried&kind=agent_paused", 3),
        (f"task={tasks[0]}", 2), ("actor=nobody", 0), (f"agent={AGENT}&kind=retried", 2),
        ("from=2020-01-01&to=2020-01-02", 0),
    ):  # fmt: skip
        assert len(as_json(client.get(f"/api/activity?{query}&limit=500"))["events"]) == count
        assert len(lines_of(client.get(f"/activity.csv?{query}"))) == count + 1
        page = client.get(f"/activity?{query}").get_data(as_text=True)
        assert len(re.findall(r'<tr id="event-', page)) == min(count, 50), query
    page = client.get("/activity?kind=cancel_requested").get_data(as_text=True)
    older = re.search(r'rel="next" href="([^"]+)"', page)
    assert older is not None
    rest = client.get(older[1].replace("&amp;", "&")).get_data(as_text=True)
    assert len(re.findall(r'<tr id="event-', rest)) == 10
    for query in ("task=x", "after=never", "range=never"):
        assert client.get(f"/activity?{query}").status_code == 400


def test_the_overview_shows_the_course_and_what_needs_attention(
    queue: Queue, client: FlaskClient
) -> None:
    page = text(client.get("/"))
    assert "Nothing needs attention" in page
    assert "No task was completed" in page
    queue.enqueue()
    queue.enqueue()
    queue.enqueue()
    queue.complete({"fields": {}})
    queue.fail("broken")
    queue.call("fold_rollups")
    queue.call("pause_agent", agent=AGENT, reason="lunch")
    client.application.extensions["lakequeue"].reads.forget()
    whole = client.get("/").get_data(as_text=True)
    page = text(client.get("/"))
    assert f"{AGENT} is paused since" in page
    assert "lunch" in page
    assert '<rect class="completed"' in whole
    assert '<rect class="failed"' in whole
    assert "1 completed, 1 failed, 0 cancelled" in whole, "each step says what it holds"
    assert re.search(r"p95 \d", page)
    assert re.search(r"waited \d.*, ran \d", page)
    history = as_json(client.get("/api/history?range=today"))
    assert sum(step["completed"] for step in history["steps"]) == 1
    assert history["response"]["tasks"] == 1
    (hour,) = history["responses"]
    assert hour["tasks"] == 1
    assert hour["p50"] > 0
    assert "Response time by the hour" in page
    assert "No worker" not in page, "the agent is paused: nobody is missed"


def test_a_task_offers_what_its_status_allows(queue: Queue, client: FlaskClient) -> None:
    waiting = queue.enqueue()
    page = client.get(f"/tasks/{waiting}").get_data(as_text=True)
    assert 'id="act-cancel"' in page
    assert 'id="act-retry"' not in page
    assert f"lakequeue.cancel_tasks(array[{waiting}]" in page
    answer = post(
        client, "/tasks/actions", action="cancel", task=waiting, page_of=waiting, confirmed="yes"
    )
    assert answer.headers["Location"] == f"/tasks/{waiting}"
    page = client.get(f"/tasks/{waiting}").get_data(as_text=True)
    assert 'id="act-retry"' in page
    assert 'id="act-cancel"' not in page


def test_a_running_attempt_says_when_it_was_submitted_and_last_heard_of(
    queue: Queue, client: FlaskClient
) -> None:
    task = queue.enqueue()
    row = queue.claim()
    page = text(client.get(f"/tasks/{task}"))
    assert "Not submitted yet" in page
    assert re.search(r"\d Last sign of life: its claim", page)
    queue.call("record_runs", attempts=[row["attempt_id"]], run_ids=[4711])
    queue.call("extend_leases", attempts=[row["attempt_id"]], tokens=[row["callback_token"]])
    page = text(client.get(f"/tasks/{task}"))
    assert re.search(r"\d\d:\d\d:\d\d Submitted as run 4711", page)
    assert re.search(r"\d\d:\d\d:\d\d Last sign of life It holds", page)
    assert "Submitted attempt 1 by" in page, "in the events, too"


def test_run_and_trace_are_linked_where_the_workspace_is_known(
    queue: Queue, tmp_path: Path
) -> None:
    queue.call("configure_agent", agent=AGENT, job_id=77)
    task = queue.enqueue()
    row = queue.claim()
    queue.call("record_runs", attempts=[row["attempt_id"]], run_ids=[4711])
    queue.call(
        "record_callback", attempt=row["attempt_id"], token=row["callback_token"],
        outcome="failure", trace_id="tr-1&x=<2>", input_tokens=10, output_tokens=1,
    )  # fmt: skip

    def page(**options: Any) -> str:
        with application(queue.database, tmp_path, **options) as app:
            return app.test_client().get(f"/tasks/{task}").get_data(as_text=True)

    workspace = "https://example.test"
    whole = page(workspace_url=workspace, experiment_id="5")
    assert f'href="{workspace}/jobs/77/runs/4711"' in whole
    traces = f"{workspace}/ml/experiments/5/traces"
    assert f'href="{traces}?selectedEvaluationId=tr-1%26x%3D%3C2%3E"' in whole
    assert 'rel="noopener"' in whole
    assert "Model cost \N{EN DASH}" in re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", whole))
    assert "/ml/experiments" not in page(workspace_url=workspace)
    alone = page(experiment_id="5")
    assert "example.test" not in alone
    assert "tr-<wbr>1&amp;x=&lt;2&gt;" in alone

"""Pages and their JSON twins: right numbers, safe whatever the documents say, clear refusals."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from flask.testing import FlaskClient
from psycopg.types.json import Json

from lakequeue.web import export, reads, views
from tests.python.web_server import AGENT, Queue, application, as_json, pdf, upload
from tests.servers import Database

# What is tested here is Python; the SQL is tested on both servers elsewhere.
pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

# A time as a page shows it: of today, of another day, of another year.
MOMENT = r"(?:\d\d:\d\d:\d\d|\d+ \w{3} (?:\d\d:\d\d|\d{4}))"

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"


@pytest.fixture
def queue(pristine: Database) -> Queue:
    return Queue(pristine)


@pytest.fixture
def client(queue: Queue, tmp_path: Path) -> Iterator[FlaskClient]:
    with application(queue.database, tmp_path) as app:
        yield app.test_client()


class Tags(HTMLParser):
    """Every tag of a page with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def text(response: Any) -> str:
    """What a page shows, without tags."""
    page = re.sub(r"<wbr>", "", response.get_data(as_text=True))
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def busy_queue(queue: Queue) -> tuple[int, int]:
    """A bit of everything; returns a completed task and an extraction."""
    extraction = queue.extraction(
        {"document_path": "/d/a.pdf", "name": "a.pdf"},
        {"document_path": "/d/b.pdf", "name": "b.pdf"},
        {"document_path": "/d/c.pdf", "name": "c.pdf"},
        {"document_path": "/d/d.pdf", "name": "d.pdf"},
        {"name": "notes.txt", "refusal": "not_a_pdf: The file is not a PDF."},
        name="October",
        customer="ACME",
    )
    task = queue.complete(
        {
            "document_type": "invoice",
            "fields": {
                "total_amount": {"value": 1717.5, "confidence": 0.99, "page": 1},
                "invoice_number": {"value": "2024-17", "confidence": 0.4, "page": 1},
            },
            "pages": [{"number": 1, "text": "Invoice 2024-17", "characters": 15}],
        },
        0.9,
        input_tokens=1200,
        output_tokens=300,
        llm_cost=0.0123,
    )
    queue.fail("the file is damaged")
    queue.claim()
    return task, extraction


PAGES = (
    "/",
    "/tasks",
    "/agents",
    "/upload",
    "/extractions",
    "/tasks/{task}",
    "/extractions/{extraction}",
    "/tasks/0",
    "/?range=nonsense",
)


def test_every_page_is_safe_by_its_headers_and_has_nothing_inline(
    queue: Queue, client: FlaskClient
) -> None:
    task, extraction = busy_queue(queue)
    for path in PAGES:
        response = client.get(path.format(task=task, extraction=extraction))
        assert response.status_code in (200, 400, 404), path
        policy = response.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        for tag, attributes in Tags(response.get_data(as_text=True)).tags:
            assert tag not in ("style", "iframe", "object", "embed"), path
            assert tag != "script" or attributes.get("src", ""), f"{path}: inline script"
            inline = [name for name in attributes if name.startswith("on") or name == "style"]
            assert not inline, f"{path}: {tag} has {inline}"


def test_static_files_are_there(client: FlaskClient) -> None:
    page = client.get("/").get_data(as_text=True) + client.get("/upload").get_data(as_text=True)
    files = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    assert len(files) >= 4
    for file in files:
        assert client.get(file).status_code == 200, file


def test_hostile_text_is_shown_as_text(queue: Queue, client: FlaskClient) -> None:
    extraction = queue.extraction(
        {"document_path": f"/d/{HOSTILE}.pdf", "name": HOSTILE},
        {"document_path": "/d/failing.pdf", "name": "x"},
        {"name": HOSTILE, "refusal": HOSTILE},
        name=HOSTILE,
        customer=HOSTILE,
    )
    task = queue.complete(
        {
            "document_type": HOSTILE,
            "notes": [HOSTILE],
            "fields": {HOSTILE: {"value": HOSTILE, "confidence": 0.1, "page": 1}, "n": HOSTILE},
            "pages": [{"number": HOSTILE, "text": HOSTILE, "characters": HOSTILE}],
        },
        0.5,
    )
    failed = queue.fail(HOSTILE)
    queue.call("configure_agent", agent=HOSTILE, model_endpoint=f"of {HOSTILE}", max_tpm=10)
    queue.call("configure_endpoint", endpoint=f"of {HOSTILE}", max_rpm=10)
    queue.call("pause_agent", agent=AGENT, reason=HOSTILE)
    for path in ("/", "/tasks", "/extractions", f"/extractions/{extraction}", f"/tasks/{task}",
                 f"/tasks/{failed}", f"/?agent={HOSTILE}", "/agents",
                 f"/agents?{urlencode({'agent': HOSTILE})}"):  # fmt: skip
        page = client.get(path).get_data(as_text=True)
        assert "<script>alert" not in page, path
        assert "<img src=x" not in page, path
        assert "49" not in re.findall(r"onerror=alert\(1\)&gt;(\S+)", page), path
    assert "alert(1)" in text(client.get(f"/tasks/{task}"))


SHAPES: tuple[Any, ...] = (
    7, "a text", [1, 2], True, {}, {"fields": []}, {"fields": {"a": None}},
    {"fields": {"a": {"value": [{"deep": [1]}], "confidence": "high", "page": -3}}},
    {"fields": {"a": {"value": {"b": 1}, "confidence": True}}, "pages": "none"},
    {"pages": [None, 5, {"text": None}, {"number": None, "text": "x"}], "notes": "plain"},
    {"fields": {"": {"value": "", "confidence": 2e300}}, "notes": [None, 3]},
)  # fmt: skip


def test_results_of_any_shape_are_shown(queue: Queue, client: FlaskClient) -> None:
    extraction = queue.extraction(*({"document_path": "/d/a.pdf"} for _ in SHAPES))
    for shape in SHAPES:
        task = queue.complete(shape)
        assert client.get(f"/tasks/{task}").status_code == 200, shape
    for path in (f"/extractions/{extraction}", f"/extractions/{extraction}.csv",
                 f"/extractions/{extraction}.json", f"/api/extractions/{extraction}"):  # fmt: skip
        assert client.get(path).status_code == 200, path


def test_the_overview_shows_what_the_database_counts(queue: Queue, client: FlaskClient) -> None:
    busy_queue(queue)
    page = text(client.get("/"))
    for status, count in {"enqueued": 1, "processing": 1, "completed": 1, "failed": 1}.items():
        assert f"{status} {count} " in page
    assert "Input tokens 1,200" in page
    assert "$0.012" in page
    assert "90 %" in page
    numbers = as_json(client.get("/api/metrics"))
    assert {name: row["tasks"] for name, row in numbers["statuses"].items()} == {
        "enqueued": 1,
        "processing": 1,
        "completed": 1,
        "failed": 1,
        "cancelled": 0,
    }
    assert numbers["llm_cost"] == 0.0123
    assert numbers["median_response"] > 0
    assert numbers["confidence"] == {
        "documents": 1, "rated": 1, "mean": pytest.approx(0.9), "low_rated": 0, "more": False,
    }  # fmt: skip


def test_unknown_is_a_dash_and_not_zero(client: FlaskClient) -> None:
    page = text(client.get("/"))
    assert "Input tokens \N{EN DASH}" in page
    assert "Model cost \N{EN DASH}" in page
    assert "Median response \N{EN DASH}" in page


def test_a_cost_that_nobody_told_is_a_dash_with_its_coverage(
    queue: Queue, client: FlaskClient
) -> None:
    for _ in range(3):
        queue.enqueue()
    queue.complete({}, input_tokens=100, output_tokens=10)
    page = words(now(client, "/"))
    assert "Input tokens 100" in page
    assert "Model cost \N{EN DASH} USD, by the traces; priced 0 of 1 finished task" in page
    numbers = as_json(client.get("/api/metrics"))
    assert numbers["llm_cost"] is None
    assert {row["llm_cost"] for row in numbers["statuses"].values()} == {None}
    assert (numbers["input_tokens"], numbers["cached_tokens"]) == (100, None)
    assert "how many were cached is not known" in page
    queue.complete({}, llm_cost=0)
    page = words(now(client, "/"))
    assert "Model cost $0.00 USD, by the traces; priced 1 of 2 finished tasks" in page
    queue.complete({}, llm_cost=0.5)
    page = words(now(client, "/"))
    assert "Model cost $0.50 USD, by the traces; priced 2 of 3 finished tasks" in page


def test_filters_are_the_same_in_page_and_json_and_stay_in_links(
    queue: Queue, client: FlaskClient
) -> None:
    busy_queue(queue)
    queue.call("configure_agent", agent="other")
    queue.value("enqueue_task", agent="other", document_path="/d/other.pdf")
    assert as_json(client.get("/api/metrics?agent=other"))["tasks"] == 1
    rows = as_json(client.get(f"/api/tasks?status=failed&status=completed&agent={AGENT}"))["tasks"]
    assert {row["status"] for row in rows} == {"failed", "completed"}
    page = client.get("/?status=failed&agent=other&range=30d").get_data(as_text=True)
    assert "/tasks?range=30d&amp;status=failed&amp;agent=other" in page
    nothing = client.get("/tasks?from=2020-01-01&to=2020-01-02&status=failed")
    assert "No task fits this filter" in text(nothing)
    today = client.get("/tasks?range=today&status=completed")
    assert "a.pdf" in text(today)


def test_addresses_that_cannot_be_meant_are_refused_in_words(client: FlaskClient) -> None:
    for query, status in (
        ("range=never", 400), ("from=yesterday", 400), ("from=2026-02-30", 400),
        ("from=2026-02-02&to=2026-02-01", 400), ("status=done", 400), ("agent=nobody", 404),
        ("after=nonsense", 400), ("after=2026-01-01_5", 400), ("range=&from=&to=&status=", 200),
        ("from=0001-01-01&to=9999-12-31", 200), ("unknown=1", 200),
    ):  # fmt: skip
        page = client.get(f"/tasks?{query}")
        assert page.status_code == status, query
        twin = client.get(f"/api/tasks?{query}")
        assert twin.status_code == status, query
        if status != 200:
            assert as_json(twin)["error"]["message"]


def test_a_page_shows_so_many_fields_and_says_how_many_more(
    queue: Queue, client: FlaskClient
) -> None:
    extraction = queue.extraction(*({"document_path": f"/d/{n}.pdf"} for n in range(8)))
    for document in range(8):
        fields = {f"a{document}_{number}": {"value": number} for number in range(5000)}
        task = queue.complete({"fields": {**fields, "zone": 1, "total_amount": document}})
    response = client.get(f"/extractions/{extraction}")
    assert len(response.get_data()) < 500_000
    page = response.get_data(as_text=True)
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', page)
    assert len(heads) == 6 + views.MOST_COLUMNS
    assert heads[5] == "Total amount", "the usual ones"
    assert "Zone" in heads, "and those that most documents have"
    assert f"{40_002 - views.MOST_COLUMNS:,} more fields are in the CSV and the JSON" in text(
        response
    )
    lines = client.get(f"/extractions/{extraction}.csv").get_data(as_text=True).splitlines()
    assert len(lines[0].split(",")) == 16 + 2 * 40_002
    response = client.get(f"/tasks/{task}")
    assert len(response.get_data()) < 500_000
    assert response.get_data(as_text=True).count(' id="field-') == views.MOST_FIELDS
    assert f"{5_002 - views.MOST_FIELDS:,} more fields are in the JSON" in text(response)
    for few in (f"/tasks/{queue.enqueue()}", "/extractions/1?after=9"):
        assert "more field" not in text(client.get(few))


def test_a_reprocessed_task_leads_to_the_new_one(queue: Queue, client: FlaskClient) -> None:
    queue.enqueue()
    task = queue.complete({"fields": {}})
    queue.call("reprocess_task", task=task)
    page = client.get(f"/tasks/{task}").get_data(as_text=True)
    new = queue.database.value("select id from lakequeue.tasks where reprocess_of is not null")
    assert f'<a href="/tasks/{new}">task {new}</a>' in page[page.index('id="events"') :]


def test_the_list_of_tasks_pages_without_repeating_or_losing(
    queue: Queue, client: FlaskClient
) -> None:
    documents = [{"document_path": f"/d/{number}.pdf"} for number in range(120)]
    queue.call("enqueue_tasks", agent=AGENT, documents=Json(documents))
    for _ in range(30):
        queue.complete({"fields": {}})
    seen: list[int] = []
    path: str | None = "/tasks?range=all"
    pages = 0
    while path:
        page = client.get(path).get_data(as_text=True)
        seen += [int(key) for key in re.findall(r'<tr id="task-(\d+)"', page)]
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = following[1].replace("&amp;", "&") if following else None
        pages += 1
    assert pages == 3
    assert len(seen) == len(set(seen)) == 120


def enqueue_around(queue: Queue, count: int) -> tuple[int, int]:
    """Two tasks to be found, as the oldest and as the newest of many that wait."""
    first = queue.enqueue("/d/Needle.pdf")
    documents = [{"document_path": f"/d/{number}.pdf"} for number in range(count)]
    queue.call("enqueue_tasks", agent=AGENT, documents=Json(documents))
    return first, queue.enqueue("/d/needle-2.pdf")


def test_a_search_says_how_far_it_has_looked_and_goes_on(
    queue: Queue, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, newest = enqueue_around(queue, 1100)
    seen: list[int] = []
    path: str | None = "/tasks?find=needle"
    pages = []
    while path:
        page = client.get(path).get_data(as_text=True)
        seen += [int(key) for key in re.findall(r'<tr id="task-(\d+)"', page)]
        following = re.search(r'rel="next" href="([^"]+)">([^<]+)<', page)
        looked = re.search(r'id="looked-to"[^>]*>Looked back to', page)
        assert (following is not None) == (looked is not None)
        assert following is None or following[2] == "Look further back"
        assert ("found so far" in page) == (looked is not None and "task-" not in page)
        assert 'name="all" value="yes"' in page, "an action can be for all that fit"
        for part in ('id="looked-to"', 'rel="next"'):
            before, found, _ = page.partition(part)
            live = before[before.index('<div id="tasks" data-live>') :]
            assert not found or live.count("<div") > live.count("</div"), f"{part} is not live"
        path = following[1].replace("&amp;", "&") if following else None
        pages.append(page)
    assert len(pages) > 2
    assert seen == [newest, oldest]
    behind = client.get("/tasks?find=needle&after=2000-01-01T00:00:00%2B00:00_1")
    assert "No older task fits" in behind.get_data(as_text=True)

    found = as_json(client.get("/api/tasks?find=needle"))
    assert [row["task_id"] for row in found["tasks"]] == [newest]
    assert "fits" not in found["tasks"][0]
    assert found["looked_back_to"] == found["next"].split("_")[0]
    answer = client.get("/api/tasks", query_string={"find": "needle", "after": found["next"]})
    assert as_json(answer)["tasks"] == [], "nothing within the next ones"
    assert as_json(client.get("/api/tasks"))["looked_back_to"] is None

    lines = client.get("/tasks.csv?find=needle").get_data(as_text=True).splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [str(newest), str(oldest)]
    monkeypatch.setattr(export, "SECONDS", 0)
    lines = client.get("/tasks.csv?find=needle").get_data(as_text=True).splitlines()
    assert lines[1].startswith(f"{newest},")
    assert lines[2].startswith("Looked back to 20")
    assert len(lines) == 3


def test_the_cost_page_says_of_what_it_knows_that_nothing_ran_as_a_job(
    queue: Queue, client: FlaskClient
) -> None:
    assert "ran as a job" not in text(client.get("/costs"))
    for _ in range(2):
        queue.enqueue()
        queue.complete({"fields": {}})
    address = "/costs?range=all"  # another one: reports are kept for some seconds
    assert "no finished task is known to have run as a job" in text(client.get(address))


def test_the_cost_page_says_of_how_many_tasks_a_median_is(
    queue: Queue, client: FlaskClient
) -> None:
    """Of a rare customer's, few are looked for among everybody else's."""
    for cost in (0.25, 0.75):
        queue.enqueue(customer="acme")
        queue.complete({}, llm_cost=cost)
        queue.call("fold_rollups")
        if cost == 0.25:
            queue.database.query(
                "update lakequeue.tasks set finished_at = finished_at - interval '1 day'"
            )
            queue.database.query(
                "update lakequeue.task_rollups set day = day - 1 where status = 'completed'"
            )
    page = words(text(client.get("/costs?customer=acme")))
    assert "Model cost, median per task $0.25 of the priced tasks" in page
    assert "Medians are of the newest" not in page
    queue.database.query(
        """insert into lakequeue.task_rollups
           select (jsonb_populate_record(r, '{"customer": "others", "tasks": 250000}')).*
             from lakequeue.task_rollups r where r.status = 'completed' and r.tasks = 1
            order by r.day desc limit 1"""
    )
    page = words(text(client.get("/costs?customer=acme&range=all")))
    assert "priced 2 of 2 tasks" in page
    assert "Model cost, median per task $0.75 of the newest 1 priced tasks" in page
    assert "Medians are of the newest finished tasks" in page


def test_a_batch_pages_through_its_documents(queue: Queue, client: FlaskClient) -> None:
    key = queue.extraction(*({"document_path": f"/d/{n}.pdf"} for n in range(450)))
    seen: list[str] = []
    path: str | None = f"/extractions/{key}"
    while path:
        page = client.get(path).get_data(as_text=True)
        seen += re.findall(r'<tr id="document-(\d+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = following[1] if following else None
    assert len(seen) == len(set(seen)) == 450


def test_what_is_not_there_is_said_in_words(client: FlaskClient) -> None:
    for path in (
        "/nothing", "/tasks/0", "/tasks/-1", "/tasks/99999999999999999999", "/tasks/abc",
        "/extractions/0", "/extractions/0.csv", "/tasks/0/document", "/tasks/0/pages/1.png",
        "/api/tasks/0", "/api/extractions/0", "/api/nothing",
    ):  # fmt: skip
        response = client.get(path)
        assert response.status_code == 404, path
        if path.startswith("/api/"):
            assert as_json(response)["error"]["message"]
        else:
            assert "<h1>There is nothing here</h1>" in response.get_data(as_text=True)


def test_a_task_page_shows_result_attempts_and_events(queue: Queue, client: FlaskClient) -> None:
    task, _ = busy_queue(queue)
    page = text(client.get(f"/tasks/{task}"))
    assert page.index("Invoice number") < page.index("Total amount"), "unsure fields come first"
    for expected in ("2024-17", "1,717.50", "40 %", "Invoice 2024-17", "Attempt succeeded",
                     "Claimed by a worker", "1,200"):  # fmt: skip
        assert expected in page
    assert as_json(client.get(f"/api/tasks/{task}"))["result"]["document_type"] == "invoice"


# --- agents and limits ----------------------------------------------------------------------------


def now(client: FlaskClient, path: str) -> str:
    """A page as it is now, not as it was up to a second ago."""
    client.application.extensions["lakequeue"].hub.version += 1
    response = client.get(path)
    assert response.status_code == 200
    return str(response.get_data(as_text=True))


def words(page: str) -> str:
    """What somebody reads of a page or a part of it."""
    plain = re.sub(r"<[^>]+>", " ", page.replace("<wbr>", ""))
    return re.sub(r"\s+", " ", html.unescape(plain))


def card(client: FlaskClient, agent: str) -> str:
    """What the agents page says of one agent."""
    page = now(client, "/agents")
    start = page.index(f'<section class="agent" id="agent-{quote(agent)}"')
    return words(page[start : page.index("</section>", start)])


def limited_agents(queue: Queue) -> None:
    """Two agents share an endpoint's tokens, one has a limit of its own besides, one has none."""
    queue.call("configure_endpoint", endpoint="shared", max_tpm=1000)
    for agent, more in (("reader", {"max_concurrent_tasks": 5}), ("other", {})):
        queue.call("configure_agent", agent=agent, model_endpoint="shared", **more,
                   tokens_per_task=0, tokens_per_page=1, estimate_factor=1)  # fmt: skip
    queue.call("configure_agent", agent="free")
    for agent, pages in (("reader", 500), ("other", 300)):
        queue.call("enqueue_task", agent=agent, document_path="/d/1.pdf", page_count=pages)
    assert len(queue.call("dequeue_tasks", worker="w", agents=["reader", "other"])) == 2


def test_the_agents_page_has_a_gauge_for_each_limit(queue: Queue, client: FlaskClient) -> None:
    limited_agents(queue)
    reader = card(client, "reader")
    assert (
        "Tokens per minute tightest endpoint shared 800 of 1,000 tokens/min reader 500, other 300"
    ) in reader
    assert "Tasks at once this agent alone 1 of 5 tasks" in reader
    assert reader.count("nothing \N{EN DASH}") == 2, (
        "while nothing waits, nobody knows whether it fits"
    )
    assert "binds" not in reader
    assert "800 of 1,000 tokens/min" in card(client, "other")
    assert "No limits: its tasks start as fast as workers claim them." in card(client, "free")
    page = now(client, "/agents")
    assert 'aria-label="800 of 1000 tokens/min"' in page
    assert page.count('<svg class="bar"') == 3
    assert "configure_endpoint('shared', max_tpm => 1000);" in reader
    assert "configure_agent('reader', max_concurrent_tasks => 5);" in reader


def test_the_limit_that_binds_says_what_waits_since_when(queue: Queue, client: FlaskClient) -> None:
    limited_agents(queue)
    queue.call("enqueue_task", agent="reader", document_path="/d/2.pdf", page_count=201)
    queue.database.query(
        """update lakequeue.tasks set created_at = created_at - interval '5 minutes',
             passed_over_at = now() where status = 'enqueued'"""
    )
    reader = card(client, "reader")
    assert re.search(
        rf"Tokens per minute binds .* Next task, for 5 min( \d s)? since {MOMENT} ;"
        rf" asks 201, room 200; later ones pass it since {MOMENT} \N{{EN DASH}} as runs end Tasks"
        " at once",
        reader,
    )
    assert "working at its limit" in reader
    assert "1 of 5 tasks nothing yes" in reader, "it would fit into the other one"
    overview = words(now(client, "/"))
    assert "reader shared working at its limit 1 800 of 1,000 tokens/min" in overview
    assert "free free idle 0 no limit" in overview
    queue.database.query(
        """update lakequeue.task_attempts set status = 'failed', ended_at = now(),
             run_ended_at = now() - interval '20 seconds'"""
    )
    assert re.search(r"in about (39|40) s", card(client, "reader"))


def test_every_page_and_psql_tell_the_same_of_a_limit(queue: Queue, client: FlaskClient) -> None:
    limited_agents(queue)
    by_agent = {row["agent"]: row for row in as_json(client.get("/api/agents"))["agents"]}
    for agent in ("reader", "other", "free"):
        rows = queue.call("explain_throttle", agent=agent)
        told = [(row["scope"], row["kind"], row["used"], row["ceiling"]) for row in rows]
        limits = by_agent[agent]["limits"]
        assert told == [(row["scope"], row["kind"], row["used"], row["ceiling"]) for row in limits]
        assert sum(row["tightest"] for row in limits) == (1 if rows else 0)
    assert not any("max" in name for name in by_agent["reader"])
    one = as_json(client.get("/api/agents?agent=reader"))["agents"]
    assert [row["agent"] for row in one] == ["reader"]
    assert "other" not in card_names(client.get("/agents?agent=reader").get_data(as_text=True))
    assert client.get("/agents?agent=nobody").status_code == 404


def card_names(page: str) -> list[str]:
    return re.findall(r'<section class="agent" id="agent-([^"]+)"', page)


def test_a_pause_says_who_why_and_how_to_resume(queue: Queue, client: FlaskClient) -> None:
    queue.call("configure_agent", agent="it's night", max_concurrent_tasks=2)
    queue.call("pause_agent", agent="it's night", reason="too dear by day", actor="ann")
    page = card(client, "it's night")
    assert re.search(rf"Paused since {MOMENT} by \w+: too dear by day Nothing is claimed", page)
    assert "select lakequeue.resume_agent('it''s night', 'why');" in page
    assert "paused by the breaker" not in page


def test_the_breaker_counts_and_says_why_it_paused(queue: Queue, client: FlaskClient) -> None:
    queue.call("configure_agent", agent=AGENT, breaker_failures=2, max_attempts=9)
    assert "Failures in a row 0 of 2 then it is paused" in card(client, AGENT)
    for number in (1, 2):
        queue.enqueue(f"/d/{number}.pdf")
        row = queue.claim()
        queue.call("record_callback", attempt=row["attempt_id"], token=row["callback_token"],
                   outcome="failure", error=Json("no module ocr"))  # fmt: skip
        queue.database.query("update lakequeue.tasks set retry_at = null where status = 'enqueued'")
        if number == 1:
            assert "Failures in a row 1 of 2 then it is paused" in card(client, AGENT)
    said = card(client, AGENT)
    assert "paused by the breaker" in said
    assert "by the breaker: 2 failures in a row, the last one: no module ocr" in said
    assert "sets the count of failures to 0: select lakequeue.resume_agent(" in said
    assert "Failures in a row 2 of 2" in said
    assert "2 failures in a row" in words(now(client, "/"))
    queue.call("resume_agent", agent=AGENT)
    assert "Failures in a row 0 of 2" in card(client, AGENT)


def test_what_estimates_have_learnt(queue: Queue, client: FlaskClient) -> None:
    said = card(client, AGENT)
    assert re.search(r"Estimate factor \N{MULTIPLICATION SIGN} 1\.\d0 not learnt yet", said)
    assert "Estimate error p50 \N{EN DASH} p95 \N{EN DASH}" in said
    queue.database.query(
        """with learnt as (
             update lakequeue.agents
                set estimate_factor = 1.31, run_input_tpm = 5000, run_output_tpm = 800
             returning id)
           insert into lakequeue.learning_books
             (agent_id, learnt_at, learnt_from, estimate_error_p50, estimate_error_p95)
           select l.id, now(), 87, -0.124, 0.043 from learnt l"""
    )
    said = card(client, AGENT)
    assert "Estimate factor \N{MULTIPLICATION SIGN} 1.31 learnt from 87 attempts" in said
    assert "Estimate error p50 \N{MINUS SIGN}12 % p95 +4 %" in said
    assert "5,800 a minute by one run" in said


def test_a_429_is_an_outcome_of_its_own(queue: Queue, client: FlaskClient) -> None:
    task = queue.enqueue()
    row = queue.claim()
    attempt = {"attempt": row["attempt_id"], "token": row["callback_token"]}
    for _ in range(2):
        queue.call("report_rate_limit", **attempt, retry_after="10 minutes")
    said = card(client, AGENT)
    assert re.search(rf"Cooling down until {MOMENT} \((9 min 5\d s|10 min)\)", said)
    assert f"endpoint {AGENT} answered 429" in said
    assert "429s, last hour 2 " in said
    assert "rate limited" not in said
    assert "met 2 429s, told to wait until" in words(now(client, f"/tasks/{task}"))
    queue.call("record_callback", **attempt, outcome="rate_limited", error=Json("429 slow down"))
    said = card(client, AGENT)
    assert "429s, last hour 2 1 attempt rate limited" in said
    assert "Failures in a row 0 of 10 " in said
    page = words(now(client, f"/tasks/{task}"))
    assert re.search(
        rf"met 2 429s, told to wait until {MOMENT} {MOMENT} Ended: rate limited 429 slow down"
        rf" {MOMENT} Next try",
        page,
    )
    assert "1 given back for a rate limit" in page
    assert "which costs no try" in page
    assert re.search(r"The model endpoint answered 429 attempt 1 .*? cools down until", page)
    assert "cooling down until" in words(now(client, "/"))

    queue.database.query("update lakequeue.tasks set retry_at = null")
    queue.database.query("update lakequeue.model_endpoints set cooldown_until = null")
    queue.complete({"fields": {}})
    page = words(now(client, f"/tasks/{task}"))
    assert re.search(rf"rate limited 429 slow down {MOMENT} Tried again", page)
    assert "next try" not in page.lower()


def test_a_batch_page_shows_every_document_and_marks_what_is_unsure(
    queue: Queue, client: FlaskClient
) -> None:
    _, extraction = busy_queue(queue)
    response = client.get(f"/extractions/{extraction}")
    page = text(response)
    assert "October" in page
    assert "3 of 5 documents done" in page
    for expected in ("not_a_pdf: The file is not a PDF.", "the file is damaged", "1,717.50",
                     "refused", "processing"):  # fmt: skip
        assert expected in page
    assert 'class="low-cell' in response.get_data(as_text=True)


def test_a_document_without_text_says_so(queue: Queue, client: FlaskClient) -> None:
    extraction = queue.extraction({"document_path": "/d/scan.pdf"})
    task = queue.complete(
        {"fields": {}, "pages": [{"number": 1, "text": "", "characters": 0}],
         "notes": ["no text layer"]}, 0.0,
    )  # fmt: skip
    assert "no text" in text(client.get(f"/extractions/{extraction}"))
    assert "No text." in text(client.get(f"/tasks/{task}"))


def test_another_host_name_is_refused(queue: Queue, tmp_path: Path) -> None:
    """Else a foreign site could have its name point to this machine and read the pages."""
    with application(queue.database, tmp_path, trusted_hosts=("127.0.0.1",)) as app:
        client = app.test_client()
        assert client.get("/", headers={"Host": "127.0.0.1:8080"}).status_code == 200
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 400


def test_a_read_that_takes_too_long_ends_in_words(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "with_time_limit", partial(reads.with_time_limit, seconds=1))
    with application(queue.database, tmp_path) as app:
        client = app.test_client()
        assert client.get("/tasks").status_code == 200
        app.extensions["lakequeue"].reads.forget()
        blocker = queue.database.connect(autocommit=False)
        blocker.execute("lock table lakequeue.tasks in access exclusive mode")
        page = client.get("/tasks")
        assert page.status_code == 503
        assert "This took the database too long. Ask for fewer days." in text(page)
        answer = client.get("/api/tasks")
        assert (answer.status_code, as_json(answer)["error"]["code"]) == (503, "too_slow")
        assert answer.headers["Retry-After"] == page.headers["Retry-After"] == "5"
        blocker.rollback()
        assert client.get("/tasks").status_code == 200


def test_without_a_database_it_says_so_and_shows_nothing_internal(
    queue: Queue, tmp_path: Path
) -> None:
    nowhere = "host=127.0.0.1 port=1 user=secret_user password=secret_word dbname=x"
    with application(queue.database, tmp_path, conninfo=nowhere) as app:
        client = app.test_client()
        for path in ("/", "/tasks", "/api/metrics"):
            response = client.get(path)
            assert response.status_code == 503
            assert response.headers["Retry-After"]
            assert "secret" not in response.get_data(as_text=True)
        assert client.get("/healthz").status_code == 200
        assert client.get("/api/health").status_code == 503


def test_health(client: FlaskClient) -> None:
    assert as_json(client.get("/api/health"))["status"] == "ok"


def test_times_are_in_the_reporting_zone(queue: Queue, client: FlaskClient) -> None:
    queue.database.query("update lakequeue.installation set time_zone = 'Asia/Kolkata'")
    queue.enqueue()
    page = client.get("/tasks").get_data(as_text=True)
    assert "Times in Asia/Kolkata" in page
    assert re.search(r'title="[\d-]+ [\d:]+ Asia/Kolkata"', page)


# --- originals ------------------------------------------------------------------------------------


def test_the_original_is_handed_out_so_that_nothing_in_it_can_run(
    queue: Queue, client: FlaskClient
) -> None:
    upload(client, (pdf(), "Rechnung März.pdf"))
    (task,) = queue.database.query("select id from lakequeue.tasks")
    response = client.get(f"/tasks/{task[0]}/document")
    assert response.get_data() == pdf()
    assert response.headers["Content-Type"] == "application/pdf"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response.headers["Content-Security-Policy"]
    assert response.headers["Content-Disposition"].startswith("inline; filename*=UTF-8''Rechnung")
    download = client.get(f"/tasks/{task[0]}/document?download=1")
    assert download.headers["Content-Disposition"].startswith("attachment;")
    part = client.get(f"/tasks/{task[0]}/document", headers={"Range": "bytes=0-4"})
    assert (part.status_code, part.get_data()) == (206, b"%PDF-")


def test_pages_of_the_original_are_drawn(queue: Queue, client: FlaskClient) -> None:
    upload(client, (pdf(), "a.pdf"))
    ((task,),) = queue.database.query("select id from lakequeue.tasks")
    picture = client.get(f"/tasks/{task}/pages/1.png")
    assert picture.headers["Content-Type"] == "image/png"
    assert picture.get_data().startswith(b"\x89PNG")
    again = client.get(
        f"/tasks/{task}/pages/1.png", headers={"If-None-Match": picture.headers["ETag"]}
    )
    assert again.status_code == 304
    assert client.get(f"/tasks/{task}/pages/2.png").status_code == 404
    assert client.get(f"/tasks/{task}/pages/1.png?width=999999").status_code == 404


def test_only_documents_of_the_volume_are_handed_out(
    queue: Queue, client: FlaskClient, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    secret = tmp_path / "secret.pdf"
    secret.write_bytes(pdf())
    (volume / "link.pdf").symlink_to(secret)
    (volume / "notes.pdf").write_text("no PDF at all")
    os.mkfifo(volume / "pipe.pdf")
    paths = (
        str(secret),
        f"{volume}/../secret.pdf",
        f"{volume}/link.pdf",
        f"{volume}/notes.pdf",
        f"{volume}/pipe.pdf",
        str(volume),
        f"{volume}/missing.pdf",
        "relative.pdf",
        "/etc/passwd",
        "/proc/self/environ",
        "https://example.org/a.pdf",
    )
    for path in paths:
        task = queue.enqueue(path)
        for view in (f"/tasks/{task}/document", f"/tasks/{task}/pages/1.png"):
            assert client.get(view).status_code == 404, path
        assert client.get(f"/tasks/{task}").status_code == 200


def test_on_ones_own_machine_documents_are_shown_where_they_are(
    queue: Queue, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.pdf"
    elsewhere.write_bytes(pdf())
    with application(queue.database, tmp_path, document_roots=None) as app:
        client = app.test_client()
        task = queue.enqueue(str(elsewhere))
        assert client.get(f"/tasks/{task}/document").get_data() == pdf()
        passwords = queue.enqueue("/etc/passwd")
        assert client.get(f"/tasks/{passwords}/document").status_code == 404

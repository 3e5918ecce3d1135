"""Uploads: many files at once, checked, kept by content, enqueued in one call; and exports."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.python.web_server import (
    DOCUMENTS,
    Queue,
    application,
    as_json,
    pdf,
    token_of,
    upload,
)
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture
def queue(pristine: Database) -> Queue:
    return Queue(pristine)


@pytest.fixture
def client(queue: Queue, tmp_path: Path) -> Iterator[FlaskClient]:
    with application(queue.database, tmp_path) as app:
        yield app.test_client()


def left_over(folder: Path) -> list[Path]:
    return list((folder / "volume" / "incoming").iterdir())


def batch(client: FlaskClient, response: Any) -> Any:
    assert response.status_code == 303, response.get_data(as_text=True)
    return as_json(client.get("/api" + response.headers["Location"]))


def test_many_files_at_once(queue: Queue, client: FlaskClient, tmp_path: Path) -> None:
    """Each stands on its batch page: parsed, refused with its reason, or known already."""
    encrypted = next((DOCUMENTS.with_name("documents-broken")).glob("encrypted*")).read_bytes()
    response = upload(
        client,
        (pdf("invoice-en.pdf"), "first.pdf"),
        (pdf("invoice-de.pdf"), "zweite.pdf"),
        (pdf("invoice-en.pdf"), "the first again.pdf"),
        (b"", "empty.pdf"),
        (b"just a text", "notes.pdf"),
        (encrypted, "locked.pdf"),
        customer="  ACME ",
        priority="8",
        name="October",
    )
    found = batch(client, response)
    assert found["extraction"]["name"] == "October"
    assert found["extraction"]["customer"] == "ACME"
    assert found["extraction"]["submitted_by"] == "ann"
    assert (found["extraction"]["documents"], found["extraction"]["refused"]) == (6, 3)
    rows = found["documents"]
    assert [row["document"] for row in rows] == [
        "first.pdf", "zweite.pdf", "the first again.pdf", "empty.pdf", "notes.pdf", "locked.pdf",
    ]  # fmt: skip
    assert rows[0]["task_id"] == rows[2]["task_id"] != rows[1]["task_id"]
    assert [row["repeated"] for row in rows] == [False, False, True, False, False, False]
    assert [row["error"].split(":")[0] for row in rows[3:]] == [
        "document_empty", "not_a_pdf", "document_encrypted",
    ]  # fmt: skip
    tasks = queue.database.query(
        """select customer, priority, page_count, document_bytes, dedup_key, document_path
             from lakequeue.tasks order by id"""
    )
    assert [task[:4] for task in tasks] == [
        ("ACME", 8, 1, len(pdf("invoice-en.pdf"))),
        ("ACME", 8, 1, len(pdf("invoice-de.pdf"))),
    ]
    for (*_, key, path), name in zip(tasks, ("invoice-en.pdf", "invoice-de.pdf"), strict=True):
        assert Path(path).read_bytes() == pdf(name)
        assert Path(path).is_relative_to(tmp_path / "volume")
        assert key == hashlib.sha256(pdf(name)).hexdigest()
    assert left_over(tmp_path) == []


def test_the_same_content_is_parsed_again_only_when_asked_to(
    queue: Queue, client: FlaskClient
) -> None:
    upload(client, (pdf(), "a.pdf"))
    upload(client, (pdf(), "b.pdf"))
    assert queue.statuses() == {"enqueued": 1}
    upload(client, (pdf(), "c.pdf"), again="yes")
    assert queue.statuses() == {"enqueued": 2}


def test_each_customer_has_their_own_name_of_a_file(
    queue: Queue, client: FlaskClient, tmp_path: Path
) -> None:
    upload(client, (pdf(), "A secret merger.pdf"), customer="a")
    upload(client, (pdf(), "b.pdf"), customer="b")
    upload(client, (pdf(), "b again.pdf"), customer="b")
    paths = queue.database.query("select document_path from lakequeue.tasks order by id")
    names = [Path(path).name for (path,) in paths]
    assert names == ["A secret merger.pdf", "b.pdf"], "one task a customer, under its own name"
    assert len({Path(path).parent for (path,) in paths}) == 1, "beside each other"
    assert all(Path(path).read_bytes() == pdf() for (path,) in paths)
    page = client.get("/tasks?customer=b").get_data(as_text=True)
    assert "merger" not in page
    found = as_json(client.get("/api/tasks?find=b.pdf"))["tasks"]
    assert [row["customer"] for row in found] == ["b"]
    upload(client, (pdf(), "b.pdf"), customer="c")
    again = queue.database.value("select document_path from lakequeue.tasks where customer = 'c'")
    assert again == paths[1][0], "the same name and content is there already"
    upload(client, (pdf(), "one.pdf"), (pdf(), "two.pdf"), customer="d", again="yes")
    named = queue.database.query(
        "select document_path from lakequeue.tasks where customer = 'd' order by id"
    )
    assert [Path(path).name for (path,) in named] == ["one.pdf", "two.pdf"]
    assert left_over(tmp_path) == []


def test_a_repeat_costs_nothing_in_the_export(queue: Queue, client: FlaskClient) -> None:
    """Its task and its cost are those of the first one: a sum would count them twice."""
    files = [(pdf("invoice-en.pdf"), "a.pdf"), (pdf("invoice-de.pdf"), "b.pdf"),
             (pdf("invoice-en.pdf"), "a again.pdf")]  # fmt: skip
    first = upload(client, *files)
    later = upload(client, files[0])
    usage = {"input_tokens": 100, "output_tokens": 10, "llm_cost": 0.25}
    for _ in range(2):
        queue.complete({"fields": {"total": 1}}, **usage)
    path = first.headers["Location"]
    rows = list(csv.DictReader(io.StringIO(client.get(f"{path}.csv").text.removeprefix("\ufeff"))))
    assert [row["submitted_before"] for row in rows] == ["", "", "yes"]
    assert [row["llm_cost_usd"] for row in rows] == ["0.25", "0.25", ""]
    assert [row["input_tokens"] for row in rows] == ["100", "100", ""]
    assert [row["output_tokens"] for row in rows] == ["10", "10", ""]
    assert [row["attempts"] for row in rows] == ["1", "1", ""]
    assert [row["total"] for row in rows] == ["1", "1", "1"], "what it says is there"
    for address in (f"{path}.json", f"/api{path}"):
        found = json.loads(client.get(address).get_data())["documents"]
        assert [row["repeated"] for row in found] == [False, False, True]
        assert [row["llm_cost"] for row in found] == [0.25, 0.25, None]
        assert [row["input_tokens"] for row in found] == [100, 100, None]
    (row,) = csv.DictReader(
        io.StringIO(client.get(f"{later.headers['Location']}.csv").text.removeprefix("\ufeff"))
    )
    assert (row["submitted_before"], row["llm_cost_usd"]) == ("yes", "")


def test_programs_get_json(client: FlaskClient) -> None:
    data = {"csrf_token": token_of(client), "documents": (io.BytesIO(pdf()), "a.pdf")}
    response = client.post("/upload", data=data, headers={"Accept": "application/json"})
    assert response.status_code == 201
    assert as_json(response)["location"] == f"/extractions/{as_json(response)['extraction']}"


def test_forms_that_cannot_be_meant(queue: Queue, client: FlaskClient, tmp_path: Path) -> None:
    for files, fields, words in (
        ([], {}, "Choose at least one PDF file"),
        ([(pdf(), "a.pdf")], {"priority": "10"}, "number from 0 to 9"),
        ([(pdf(), "a.pdf")], {"priority": "high"}, "number from 0 to 9"),
        ([(pdf(), "a.pdf")], {"customer": "x" * 201}, "200 characters at most"),
        ([(pdf(), "a.pdf")], {"agent": "nobody"}, "no agent &#39;nobody&#39;"),
    ):
        response = upload(client, *files, **fields)
        assert response.status_code == 400
        assert words in response.get_data(as_text=True)
    assert queue.statuses() == {}
    assert left_over(tmp_path) == []


def test_a_write_needs_a_form_of_our_own(queue: Queue, client: FlaskClient, tmp_path: Path) -> None:
    token = token_of(client)

    def send(token: str | None, **headers: str) -> int:
        data: dict[str, Any] = {"documents": (io.BytesIO(pdf()), "a.pdf")}
        if token is not None:
            data["csrf_token"] = token
        return client.post("/upload", data=data, headers=headers).status_code

    assert send(None) == 403
    assert send("") == 403
    assert send(token + "x") == 403
    assert send(token, **{"Sec-Fetch-Site": "cross-site"}) == 403
    assert send(token, **{"Sec-Fetch-Site": "same-site"}) == 403
    assert send(token, Origin="https://evil.example") == 403
    client.delete_cookie("lakequeue")
    assert send(token) == 403
    assert queue.statuses() == {}
    assert left_over(tmp_path) == []
    again = token_of(client)
    assert send(again, Origin="http://localhost", **{"Sec-Fetch-Site": "same-origin"}) == 303
    proxied = {"Sec-Fetch-Site": "same-origin", "Origin": "https://apps.example"}
    assert send(again, **proxied) == 303, "behind a proxy our own host may be another one"


def test_too_large_a_file_is_refused_and_the_others_are_not(queue: Queue, tmp_path: Path) -> None:
    with application(queue.database, tmp_path, max_file_bytes=5000) as app:
        client = app.test_client()
        found = batch(
            client, upload(client, (b"%PDF-" + b"x" * 6000, "large.pdf"), (pdf(), "small.pdf"))
        )
    assert [row["refused"] for row in found["documents"]] == [True, False]
    assert found["documents"][0]["error"].startswith("document_too_large")
    assert left_over(tmp_path) == []


def test_too_large_a_request_is_refused_as_a_whole(queue: Queue, tmp_path: Path) -> None:
    with application(queue.database, tmp_path, max_upload_bytes=10_000) as app:
        client = app.test_client()
        response = upload(client, (b"x" * 20_000, "large.pdf"))
        assert response.status_code == 413
        assert "too large" in response.get_data(as_text=True)
    assert queue.statuses() == {}
    assert left_over(tmp_path) == []


def test_nothing_is_left_when_the_database_refuses(
    queue: Queue, client: FlaskClient, tmp_path: Path
) -> None:
    token = token_of(client)
    queue.database.query("alter table lakequeue.tasks add constraint full_ check (id < 0)")
    response = client.post(
        "/upload", data={"csrf_token": token, "documents": (io.BytesIO(pdf()), "a.pdf")}
    )
    assert response.status_code == 400
    assert left_over(tmp_path) == []
    assert queue.call("list_extractions") == [], "both or nothing"


def test_without_an_agent_the_form_says_how_to_make_one(pristine: Database, tmp_path: Path) -> None:
    with application(pristine, tmp_path) as app:
        page = app.test_client().get("/upload").get_data(as_text=True)
    assert "configure_agent" in page
    assert 'id="upload"' not in page


# --- exports --------------------------------------------------------------------------------------


def test_csv_and_json_of_an_extraction(queue: Queue, client: FlaskClient) -> None:
    key = queue.extraction(
        {"document_path": "/d/a.pdf", "name": '=HYPERLINK("http://evil")'},
        {"document_path": "/d/b.pdf", "name": "b.pdf"},
        {"name": "notes.txt", "refusal": "not_a_pdf: The file is not a PDF."},
        name="@October / Q4",
    )
    queue.complete(
        {
            "document_type": "invoice",
            "language": "en",
            "fields": {
                "total_amount": {"value": -717.97, "confidence": 0.9, "page": 1},
                "issuer": {"value": '+49 Widgets, "Inc"\nLtd', "confidence": 0.5, "page": 1},
                "=evil()": {"value": ["@a", "b"], "confidence": None, "page": None},
            },
            "pages": [{"number": 1, "text": "words", "characters": 5}],
        },
        0.75,
        input_tokens=100,
        output_tokens=10,
        llm_cost=0.25,
    )
    response = client.get(f"/extractions/{key}.csv")
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert "attachment" in response.headers["Content-Disposition"]
    assert response.get_data().startswith(b"\xef\xbb\xbf"), "Excel needs the mark"
    rows = list(csv.DictReader(io.StringIO(response.get_data().decode("utf-8-sig"))))
    assert [row["status"] for row in rows] == ["completed", "enqueued", "refused"]
    first = rows[0]
    assert first["document"] == '\'=HYPERLINK("http://evil")'
    assert first["issuer"] == '\'+49 Widgets, "Inc"\nLtd'
    assert first["'=evil()"] == "'@a; b"
    assert first["total_amount"] == "-717.97", "numbers stay numbers"
    assert first["total_amount confidence"] == "0.9"
    assert first["llm_cost_usd"] == "0.25"
    assert rows[2]["error"] == "not_a_pdf: The file is not a PDF."

    response = client.get(f"/extractions/{key}.json")
    found = json.loads(response.get_data())
    assert found["extraction"]["name"] == "@October / Q4"
    assert [row["document"] for row in found["documents"]][1:] == ["b.pdf", "notes.txt"]
    assert "pages" not in found["documents"][0]["result"]
    assert found["documents"][0]["result"]["fields"]["total_amount"]["value"] == -717.97


def test_an_export_reads_on_where_a_batch_ends(
    queue: Queue, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakequeue.web.views.EXPORT_BATCH", 7)
    for count in (0, 7, 30):
        key = queue.extraction(*({"document_path": f"/d/{n}.pdf"} for n in range(count)))
        lines = client.get(f"/extractions/{key}.csv").get_data(as_text=True).splitlines()
        assert len(lines) == count + 1
        found = json.loads(client.get(f"/extractions/{key}.json").get_data())
        assert len(found["documents"]) == count

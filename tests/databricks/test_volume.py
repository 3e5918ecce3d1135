"""Documents in a Unity Catalog volume: sent, found again and shown, whatever they are called."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from lakequeue.web.databricks_volume import DatabricksVolume, open_volume
from lakequeue.web.options import Options
from lakequeue.web.volume import NoDocument, Volume
from lakequeue.workspace import NotAllowed, Unreachable
from tests.databricks.workspace import Workspace
from tests.python.web_server import Queue, application, as_json, pdf, upload
from tests.servers import Database

ROOT = "/Volumes/main/lakequeue/documents"
NAME = "Prüfung Müller & Söhne 50% #2.pdf"
STORED = "Prüfung Müller _ Söhne 50_ _2.pdf"


@pytest.fixture
def volume(workspace: Workspace, tmp_path: Path) -> DatabricksVolume:
    return DatabricksVolume(ROOT, tmp_path, [Path(ROOT)])


def receive(volume: Volume, content: bytes) -> tuple[Path, str]:
    path, file = volume.receive()
    with file:
        file.write(content)
    return path, hashlib.sha256(content).hexdigest()


def test_a_document_is_kept_by_its_content_and_fetched_again(
    workspace: Workspace, volume: DatabricksVolume
) -> None:
    path, sha256 = receive(volume, pdf())
    kept = volume.keep(path, sha256, NAME)
    assert kept == f"{ROOT}/{sha256[:2]}/{sha256}/{STORED}"
    assert workspace.files == {kept: pdf()}
    assert not path.exists()
    again, _ = receive(volume, pdf())
    workspace.calls.clear()
    assert volume.keep(again, sha256, NAME) == kept
    assert "PUT" not in {method for method, _ in workspace.calls}, "it is there already"
    assert not again.exists()
    other, _ = receive(volume, pdf())
    assert volume.keep(other, sha256, "../b/another name.pdf") == (
        f"{ROOT}/{sha256[:2]}/{sha256}/another name.pdf"
    ), "whoever sends it later does not see the first name"
    assert not other.exists()
    assert volume.find(kept).read_bytes() == pdf()
    assert len(workspace.files) == 2


def test_large_documents_go_in_parts(workspace: Workspace, volume: DatabricksVolume) -> None:
    content = b"%PDF-1.7" + os.urandom(1 << 20) * 52
    path, sha256 = receive(volume, content)
    kept = volume.keep(path, sha256, "large.pdf")
    assert workspace.files[kept] == content
    assert workspace.largest_body <= 10 << 20
    assert volume.find(kept).read_bytes() == content


def test_a_fetched_document_is_fetched_once(workspace: Workspace, volume: DatabricksVolume) -> None:
    path = f"{ROOT}/a b/ä.pdf"
    workspace.files[path] = pdf()
    first = volume.find(path)
    mark = first.stat().st_mtime_ns
    workspace.calls.clear()
    assert volume.find(path) == first
    assert first.stat().st_mtime_ns == mark, "pages are marked by it"
    assert [method for method, _ in workspace.calls] == ["HEAD"]
    workspace.files[path] = pdf() + b"more"
    assert volume.find(path).read_bytes() == pdf() + b"more"


def test_checking_fetches_nothing(workspace: Workspace, volume: DatabricksVolume) -> None:
    workspace.files[f"{ROOT}/a.pdf"] = pdf()
    volume.check(f"{ROOT}/a.pdf")
    assert [method for method, _ in workspace.calls] == ["HEAD"]


def test_what_is_fetched_stays_bounded(workspace: Workspace, tmp_path: Path) -> None:
    size = len(pdf())
    volume = DatabricksVolume(ROOT, tmp_path, None, cache_bytes=2 * size)
    paths = [f"{ROOT}/{number}.pdf" for number in range(4)]
    for path in paths:
        workspace.files[path] = pdf()
    found = [volume.find(path) for path in paths[:3]]
    assert all(file.exists() for file in found), "what may be being sent stays"
    for age, file in zip((3000, 2000, 1000), found, strict=True):
        os.utime(file, (file.stat().st_atime - age, file.stat().st_mtime))
    volume.find(paths[0])  # used just now
    volume.find(paths[3])
    assert [file.exists() for file in found] == [True, False, False]


@pytest.mark.parametrize(
    "path",
    [
        f"{ROOT}/missing.pdf",
        f"{ROOT}/notes.pdf",
        f"{ROOT}/../other/secret.pdf",
        f"{ROOT}x/secret.pdf",
        ROOT,
        "/Volumes/main/other/secret.pdf",
        "/etc/passwd",
        "relative.pdf",
        "",
    ],
)
def test_nothing_else_is_shown(workspace: Workspace, volume: DatabricksVolume, path: str) -> None:
    workspace.volumes |= {"/Volumes/main/other", f"{ROOT}x"}
    workspace.files |= {
        "/Volumes/main/lakequeue/other/secret.pdf": pdf(),
        "/Volumes/main/other/secret.pdf": pdf(),
        f"{ROOT}x/secret.pdf": pdf(),
        f"{ROOT}/notes.pdf": b"just a text",
    }
    with pytest.raises(NoDocument):
        volume.find(path)


def test_trouble_is_told_in_words(
    workspace: Workspace, volume: DatabricksVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.files[f"{ROOT}/a.pdf"] = pdf()
    path, sha256 = receive(volume, pdf())
    workspace.fault("/fs/", status=403, times=None)
    with pytest.raises(NotAllowed):
        volume.keep(path, sha256, NAME)
    with pytest.raises(NoDocument, match="cannot be read at the moment"):
        volume.check(f"{ROOT}/a.pdf")
    workspace.mend()
    workspace.fault("/fs/files", method="PUT", status=500)
    with pytest.raises(Unreachable):
        volume.keep(path, sha256, NAME)
    assert path.exists(), "so that it can be sent again"
    workspace.fault("/fs/files", method="PUT", status=429, retry_after=0)
    assert volume.keep(path, sha256, NAME) in workspace.files, "what passes is waited out"


def test_which_volume_the_options_mean(workspace: Workspace, tmp_path: Path) -> None:
    def opened(path: Path) -> Volume:
        options = Options(
            conninfo="", folder=tmp_path, volume=path, document_roots=None, secret_key=b""
        )
        return open_volume(options)

    assert type(opened(Path(ROOT))) is DatabricksVolume
    assert type(opened(tmp_path / "volume")) is Volume
    assert workspace.calls == []


# --- the web part ---------------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
class TestWeb:
    @pytest.fixture
    def client(self, pristine: Database, workspace: Workspace, tmp_path: Path) -> Any:
        with application(
            pristine, tmp_path, volume=Path(ROOT), document_roots=(Path(ROOT),)
        ) as app:
            yield app.test_client()

    @pytest.fixture(autouse=True)
    def queue(self, pristine: Database) -> Queue:
        return Queue(pristine)

    def test_several_files_are_sent_at_once(
        self, workspace: Workspace, client: Any, queue: Queue, tmp_path: Path
    ) -> None:
        together: Any = threading.Barrier(3)
        workspace.fault("/fs/files/", method="PUT", hold=together, times=3)
        response = upload(
            client,
            (pdf("invoice-en.pdf"), NAME),
            (pdf("invoice-de.pdf"), "zweite Rechnung.pdf"),
            (pdf("invoice-en.pdf"), "the first again.pdf"),
            (pdf("invoice-fr.pdf"), "3.pdf"),
            (b"just a text", "notes.pdf"),
        )
        assert response.status_code == 303, response.get_data(as_text=True)
        assert not together.broken
        found = as_json(client.get("/api" + response.headers["Location"]))
        rows = found["documents"]
        assert rows[0]["task_id"] == rows[2]["task_id"]
        assert [bool(row["error"]) for row in rows] == [False] * 4 + [True]
        paths = queue.database.query("select document_path from lakequeue.tasks order by id")
        assert {path for (path,) in paths} == set(workspace.files)
        assert paths[0][0].endswith(STORED)
        assert list((tmp_path / "volume" / "incoming").iterdir()) == []

        task = rows[0]["task_id"]
        assert client.get(f"/tasks/{task}").status_code == 200
        assert client.get(f"/tasks/{task}/document").get_data() == pdf("invoice-en.pdf")
        picture = client.get(f"/tasks/{task}/pages/1.png")
        assert picture.get_data().startswith(b"\x89PNG")

    def test_what_cannot_be_sent_is_not_enqueued(
        self, workspace: Workspace, client: Any, queue: Queue, tmp_path: Path
    ) -> None:
        workspace.fault("/fs/files/", method="PUT", status=500, times=None)
        response = upload(client, (pdf("invoice-en.pdf"), NAME))
        assert response.status_code == 503
        assert "does not answer as it should" in response.get_data(as_text=True)
        assert queue.database.query("select from lakequeue.tasks") == []
        assert list((tmp_path / "volume" / "incoming").iterdir()) == []

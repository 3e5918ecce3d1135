"""A gate in front of a test server that lets in only who has a valid token, as Lakebase does.

It asks for the password in clear text, compares it with the fake workspace's credentials, and then
passes everything on to the real server, which trusts everyone. A token is looked at when a
connection begins and never again. `cut` ends every connection, as a compute that suspends does.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from psycopg.conninfo import make_conninfo

from tests.databricks.workspace import Workspace
from tests.servers import Database

SSL_REQUEST = 80877103
GSS_REQUEST = 80877104


class Gate:
    """The way into one database."""

    def __init__(self, database: Database, workspace: Workspace) -> None:
        self.port = 0
        self.logins = 0
        """Connections that were let in."""
        self.users: set[str] = set()
        """As whom."""
        self.refused = 0
        self.open = True
        """Else nobody gets as far as a password."""
        self._database = database
        self._workspace = workspace
        self._socket = Path(database.server.folder) / f".s.PGSQL.{database.server.port}"
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()

    def conninfo(self, user: str = "test_worker", sslmode: str | None = "disable") -> str:
        """How to come here; there is no password in it."""
        more = {} if sslmode is None else {"sslmode": sslmode}
        return make_conninfo(
            host="127.0.0.1", port=self.port, dbname=self._database.name, user=user, **more
        )

    def cut(self) -> None:
        """End every connection."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(10)

    async def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    # --- one connection -------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            startup = await self._startup(reader, writer)
            if self.open and await self._is_welcome(reader, writer):
                words = startup[8:].split(b"\0")
                self.users.add(dict(zip(words[::2], words[1::2], strict=False))[b"user"].decode())
                await self._pass_on(startup, reader, writer)
        self._writers.discard(writer)
        writer.close()

    async def _startup(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        while True:
            head = await reader.readexactly(8)
            length, code = struct.unpack("!ii", head)
            if code not in (SSL_REQUEST, GSS_REQUEST):
                return head + await reader.readexactly(length - 8)
            writer.write(b"N")

    async def _is_welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"R" + struct.pack("!ii", 8, 3))
        kind, length = struct.unpack("!ci", await reader.readexactly(5))
        password = (await reader.readexactly(length - 4)).rstrip(b"\0").decode()
        if kind == b"p" and self._workspace.accepts(password):
            self.logins += 1
            return True
        self.refused += 1
        words = b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed\0\0"
        writer.write(b"E" + struct.pack("!i", len(words) + 4) + words)
        await writer.drain()
        return False

    async def _pass_on(
        self, startup: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        back_reader, back_writer = await asyncio.open_unix_connection(self._socket)
        back_writer.write(startup)
        ways = [
            asyncio.ensure_future(_pump(reader, back_writer)),
            asyncio.ensure_future(_pump(back_reader, writer)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        back_writer.close()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def stop(self) -> None:
        """End it; what is connected is cut off."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


@contextlib.contextmanager
def gate(database: Database, workspace: Workspace) -> Iterator[Gate]:
    """A gate on a free port of this machine, as long as the block lasts."""
    made = Gate(database, workspace)
    ready = threading.Event()
    thread = threading.Thread(target=made._run, args=(ready,), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield made
    finally:
        made.stop()
        thread.join(10)

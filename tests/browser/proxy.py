"""A proxy between browser and server that can swallow what a stream sends, as some do for good."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class Proxy:
    """Forwards connections. `swallow_streams`: what streams send is read and dropped."""

    def __init__(self, target: str) -> None:
        where = urlsplit(target)
        self._target = (str(where.hostname), int(where.port or 80))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.swallow_streams = False
        self.refuse = False
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Cut every connection."""
        for side in list(self._open):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuse:
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            self._open |= {client, server}
            kind = {"stream": False}
            back = threading.Thread(target=self._answers, args=(server, client, kind), daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                while data := client.recv(65536):
                    # A connection that is kept alive may be used for either.
                    kind["stream"] = data.startswith(b"GET /api/events")
                    server.sendall(data)
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            back.join(5)
            self._open -= {client, server}

    def _answers(self, server: socket.socket, client: socket.socket, kind: dict[str, bool]) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if not (kind["stream"] and self.swallow_streams):
                    client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)

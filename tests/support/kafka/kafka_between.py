"""A proxy of Kafka that rejects the first rows of a topic with a retriable error, which otherwise happens by chance."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

PRODUCE = 0
NOT_LEADER = 6
"""The error code of a broker that no longer has the partition, or not yet because the topic is new."""


class NotYet:
    """A proxy that answers the first request with rows of a topic in place of the broker.

    The answer rejects the topic's only partition with ``NOT_LEADER``.
    """

    def __init__(self, servers: str, topic: str) -> None:
        host, port = servers.split(":")
        self.refused = 0
        self._topic = topic.encode()
        self._broker = host, int(port)
        self._listening = socket.create_server((host, 0))
        own = self._listening.getsockname()[1]
        self.servers = f"{host}:{own}"
        # The broker's answers contain its own port, to which clients would connect.
        self._broker_port, self._own_port = (host.encode() + struct.pack(">i", number) for number in (int(port), own))

    @contextlib.contextmanager
    def open(self) -> Iterator[str]:
        """Starts the proxy. Returns its ``bootstrap.servers``."""
        threading.Thread(target=self._accept, daemon=True).start()
        with self._listening:
            yield self.servers
            self._listening.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                broker = socket.create_connection(self._broker)
                # Both threads send answers to a client.
                answering = threading.Lock()
                for way in (self._requests, self._answers):
                    threading.Thread(target=way, args=(client, broker, answering), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, answering: threading.Lock) -> None:
        with contextlib.suppress(OSError, EOFError), broker:
            while True:
                request = received(client)
                if self.refused == 0 and request[:2] == struct.pack(">h", PRODUCE) and self._topic in request:
                    self.refused += 1
                    with answering:
                        send(client, self._refusal(request))
                else:
                    send(broker, request)

    def _answers(self, client: socket.socket, broker: socket.socket, answering: threading.Lock) -> None:
        with contextlib.suppress(OSError, EOFError), client:
            while True:
                answer = received(broker).replace(self._broker_port, self._own_port)
                with answering:
                    send(client, answer)

    def _refusal(self, request: bytes) -> bytes:
        _, version, number = struct.unpack(">hhi", request[:8])
        assert 9 <= version <= 12, f"a request with rows has the version {version}, of which the answer is not known"
        # Lists and texts begin with their length plus one, and extensible structures end with a zero.
        refused = struct.pack(">ihqqq", 0, NOT_LEADER, -1, -1, -1) + b"\1\0\0"
        of_topic = bytes([len(self._topic) + 1]) + self._topic + b"\2" + refused + b"\0"
        return struct.pack(">i", number) + b"\0\2" + of_topic + struct.pack(">i", 0) + b"\0"


def send(to: socket.socket, message: bytes) -> None:
    to.sendall(struct.pack(">i", len(message)) + message)


def received(source: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", exactly(source, 4))
    return exactly(source, size)


def exactly(source: socket.socket, size: int) -> bytes:
    read = bytearray()
    while len(read) < size:
        piece = source.recv(size - len(read))
        if not piece:
            raise EOFError
        read += piece
    return bytes(read)

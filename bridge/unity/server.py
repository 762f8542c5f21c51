"""The gRPC server that a player connects to: bytes in, bytes out, one exchange at a time.

A player calls ``Exchange`` and stands still until it is answered. The call
arrives on a gRPC thread, goes to the trainer's thread through a queue, and is
held open there until the trainer answers. What the bytes mean is up to others.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any, Final

import grpc

from bridge.errors import CallOrderError, UnityPortError
from bridge.unity.daemon_threads import DaemonThreads
from bridge.unity.messages import EXCHANGE_METHOD_NAME, EXCHANGE_SERVICE, STATUS_QUIT, Header, UnityMessage

__all__ = ["LOOPBACK", "MAX_MESSAGE_BYTES", "ExchangeServer", "quit_reply"]

LOOPBACK: Final = "127.0.0.1"

MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
"""Largest request that is accepted; gRPC's own limit of 4 MiB is too small for many cameras."""

_CHECK_INTERVAL_S = 0.5
_STOP_TIMEOUT_S = 5.0
_THREADS = 4


def quit_reply() -> bytes:
    """The reply that makes a player end."""
    data: bytes = UnityMessage(header=Header(status=STATUS_QUIT)).SerializeToString()
    return data


class _Call:
    """A request that waits for its reply."""

    __slots__ = ("reply", "request")

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.reply: SimpleQueue[bytes] = SimpleQueue()


class ExchangeServer:
    """Listens for one player.

    Args:
        host: Address to listen on; loopback unless a player runs on another machine.
        port: Port to listen on; 0 takes a free one.

    Attributes:
        port: The port it listens on.

    Raises:
        UnityPortError: The address cannot be listened on.
    """

    def __init__(self, host: str = LOOPBACK, port: int = 0) -> None:
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._waiting: _Call | None = None
        self._busy = threading.Lock()
        self._closed = threading.Event()
        self._threads = DaemonThreads(_THREADS, "agv-bridge-unity")
        self._server = grpc.server(
            self._threads,
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ],
        )
        # Without serializers gRPC hands the bytes through as they are.
        method = grpc.unary_unary_rpc_method_handler(self._exchange)
        service = grpc.method_handlers_generic_handler(EXCHANGE_SERVICE, {EXCHANGE_METHOD_NAME: method})
        self._server.add_generic_rpc_handlers((service,))
        try:
            self.port: int = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise UnityPortError(
                f"ExchangeServer: expected to listen on {host}:{port}, got: {error}. Use port 0 for a free one."
            ) from error
        self._server.start()

    def receive(self, timeout_s: float) -> bytes | None:
        """The next request, or None if none came in time.

        Raises:
            CallOrderError: The last request has not been answered.
        """
        if self._waiting is not None:
            raise CallOrderError("ExchangeServer.receive: expected the last request to be answered, got a second call.")
        try:
            call = self._calls.get(timeout=max(timeout_s, 0.0))
        except Empty:
            return None
        self._waiting = call
        return call.request

    def reply(self, data: bytes) -> None:
        """Answer the request that :meth:`receive` returned last.

        Raises:
            CallOrderError: There is no request to answer.
        """
        if self._waiting is None:
            raise CallOrderError("ExchangeServer.reply: expected a request that waits for a reply, got none.")
        self._waiting.reply.put(data)
        self._waiting = None

    @property
    def owes_reply(self) -> bool:
        """Whether a request that was received has not been answered."""
        return self._waiting is not None

    def close(self) -> None:
        """Make the player quit if it waits for a reply, and stop listening; may be called twice."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._waiting is not None:
            self.reply(quit_reply())
        self._answer_unread_calls()
        self._server.stop(_STOP_TIMEOUT_S).wait(_STOP_TIMEOUT_S + 1.0)
        self._threads.shutdown()

    def _answer_unread_calls(self) -> None:
        while True:
            try:
                self._calls.get_nowait().reply.put(quit_reply())
            except Empty:
                return

    def _exchange(self, request: bytes, context: Any) -> bytes:
        if not self._busy.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "another exchange is waiting for its reply")
        try:
            call = _Call(request)
            self._calls.put(call)
            while True:
                try:
                    return call.reply.get(timeout=_CHECK_INTERVAL_S)
                except Empty:
                    if self._closed.is_set() or not context.is_active():
                        return quit_reply()
        finally:
            self._busy.release()

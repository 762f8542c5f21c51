"""The server alone: bytes, one exchange at a time."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from bridge.errors import CallOrderError, UnityPortError
from bridge.unity.messages import EXCHANGE_METHOD
from bridge.unity.server import ExchangeServer, quit_reply


@pytest.fixture
def server() -> Iterator[ExchangeServer]:
    server = ExchangeServer()
    yield server
    server.close()


def client(port: int) -> Any:
    return grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_receive_message_length", -1)])


def test_server_carries_bytes_both_ways_when_they_exceed_grpcs_own_limit(server: ExchangeServer) -> None:
    request, reply = b"\1" * (9 << 20), b"\2" * (9 << 20)
    with client(server.port) as channel:
        answer = channel.unary_unary(EXCHANGE_METHOD).future(request)
        assert server.receive(10) == request
        assert server.owes_reply
        server.reply(reply)
        assert answer.result(timeout=10) == reply
        assert not server.owes_reply


def test_server_listens_on_loopback_and_a_free_port_by_default(server: ExchangeServer) -> None:
    other = ExchangeServer()
    assert server.port != other.port
    other.close()
    with socket.socket(socket.AF_INET6) as probe:
        probe.settimeout(5)
        with pytest.raises(OSError, match=r"refused|unreachable|assign"):
            probe.connect(("::1", server.port))


def test_server_refuses_a_second_client_when_one_waits(server: ExchangeServer) -> None:
    with client(server.port) as first, client(server.port) as second:
        waiting = first.unary_unary(EXCHANGE_METHOD).future(b"one")
        assert server.receive(10) == b"one"
        with pytest.raises(grpc.RpcError, match="another exchange is waiting for its reply"):
            second.unary_unary(EXCHANGE_METHOD)(b"two", timeout=10)
        server.reply(b"answer")
        assert waiting.result(timeout=10) == b"answer"
        assert server.receive(0.0) is None


@pytest.mark.parametrize("was_received", [True, False])
def test_close_answers_with_quit_when_a_request_waits(was_received: bool) -> None:
    server = ExchangeServer()
    with client(server.port) as channel:
        waiting = channel.unary_unary(EXCHANGE_METHOD).future(b"request")
        if was_received:
            assert server.receive(10) == b"request"
        else:
            grpc.channel_ready_future(channel).result(timeout=10)
            while server._calls.empty():
                assert not waiting.done()
        server.close()
        server.close()
        assert waiting.result(timeout=10) == quit_reply()


def test_calls_raise_when_they_are_out_of_order(server: ExchangeServer) -> None:
    assert server.receive(0.0) is None
    with pytest.raises(CallOrderError, match=r"reply: expected a request that waits for a reply, got none"):
        server.reply(b"")
    with client(server.port) as channel:
        waiting = channel.unary_unary(EXCHANGE_METHOD).future(b"request")
        assert server.receive(10) == b"request"
        with pytest.raises(CallOrderError, match=r"receive: expected the last request to be answered"):
            server.receive(0.0)
        server.reply(b"")
        assert waiting.result(timeout=10) == b""


def test_server_raises_when_its_port_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UnityPortError, match=rf"expected to listen on 127.0.0.1:{port}, .* Use port 0"):
            ExchangeServer(port=port)

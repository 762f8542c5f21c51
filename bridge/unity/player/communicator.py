"""The player's end of the wire: one gRPC method, called and waited for.

There is no deadline on a call, as there is none in the C# package: while the
trainer thinks, the player stands still. A trainer that dies closes the
connection, and the call ends.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.message import DecodeError

from bridge.errors import UnityProtocolError, UnityVersionError
from bridge.unity.messages import (
    COMMAND_QUIT,
    EXCHANGE_METHOD,
    STATUS_OK,
    STATUS_QUIT,
    InitializationInput,
    InitializationOutput,
    all_capabilities,
)
from bridge.unity.player.envelope import Envelope, EnvelopeHeader, EnvelopeOutput
from bridge.unity.player.log import PlayerLog

__all__ = ["Communicator", "NoTrainerError"]

_GOODBYE_TIMEOUT_S = 5.0
_GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


class NoTrainerError(Exception):
    """No trainer answers at the port, or it answers something that a player does not understand."""


class Communicator:
    """Connects to a trainer, introduces the player, and exchanges messages until one side quits.

    Args:
        port: Port of the trainer on this machine.
        log: Where connection and loss are reported.
    """

    def __init__(self, port: int, log: PlayerLog) -> None:
        self._log = log
        self._port = port
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_send_message_length", -1)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
        self._call = self._channel.unary_unary(
            EXCHANGE_METHOD,
            request_serializer=Envelope.SerializeToString,
            response_deserializer=Envelope.FromString,
        )

    def connect(self, package_version: str, communication_version: str) -> tuple[Any, Any] | None:
        """Make the two calls of the handshake.

        The trainer answers the second one when its user resets the environment for the first time.

        Returns:
            The initialization input of reply 1 (seed, number of areas, versions) and the RL input of
            reply 2, or None if the trainer quit.

        Raises:
            NoTrainerError: Nobody answers, or not as a trainer does.
            UnityVersionError: The trainer speaks another protocol version.
        """
        introduction = InitializationOutput(
            name="AcademySingleton",
            communication_version=communication_version,
            package_version=package_version,
            capabilities=all_capabilities(),
        )
        try:
            output = EnvelopeOutput(rl_initialization_output=introduction.SerializeToString())
            reply = self._call(_request(output))
        except grpc.RpcError as error:
            raise NoTrainerError(f"Couldn't connect to a trainer on port {self._port}: {_code(error).name}.") from error
        if reply.header.status == STATUS_QUIT:
            return None
        try:
            settings = InitializationInput.FromString(reply.unity_input.rl_initialization_input)
        except DecodeError as error:
            raise NoTrainerError(f"What answers on port {self._port} is no trainer: {error}.") from error
        if not settings.HasField("capabilities"):
            raise NoTrainerError(f"The trainer on port {self._port} announced no capabilities.")
        self._log.write(
            f"Connected to a trainer on port {self._port}: package {settings.package_version}, "
            f"communication {settings.communication_version}, seed {settings.seed}, areas {settings.num_areas}"
        )
        second = self.exchange(None)
        if second is None:
            mine, its = communication_version, settings.communication_version
            if mine.split(".")[0] != its.split(".")[0]:
                raise UnityVersionError(f"player: expected a trainer of protocol {mine}, got {its}.")
            return None
        return settings, second

    def exchange(self, output: Any | None) -> Any | None:
        """Send the player's output and wait for the trainer's answer.

        Args:
            output: An ``EnvelopeOutput`` message, or None.

        Returns:
            The ``UnityRLInputProto`` of the reply, an envelope's, or None if the trainer quit or is gone.

        Raises:
            UnityProtocolError: The call failed for another reason.
        """
        try:
            reply = self._call(_request(output))
        except grpc.RpcError as error:
            if _code(error) in _GONE:
                self._log.write("The trainer is gone.")
                return None
            raise UnityProtocolError(
                f"player: expected a reply from the trainer on port {self._port}, got {_code(error).name}: {error}."
            ) from error
        if reply.header.status == STATUS_QUIT or reply.unity_input.rl_input.command == COMMAND_QUIT:
            self._log.write("The trainer asked to quit.")
            return None
        return reply.unity_input.rl_input

    def send_bytes(self, data: bytes) -> None:
        """Send anything at all in place of a message, and wait until the trainer has dealt with it."""
        call = self._channel.unary_unary(EXCHANGE_METHOD)  # no serializers: bytes as they are
        try:
            call(data)
        except grpc.RpcError as error:
            # Expected: what a trainer makes of bytes that are no message is its business.
            self._log.write(f"The trainer refused the call ({_code(error).name}).")

    def say_goodbye(self) -> None:
        """Tell the trainer that the player quits."""
        message = Envelope(header=EnvelopeHeader(status=STATUS_QUIT))
        try:
            self._call(message, timeout=_GOODBYE_TIMEOUT_S)
        except grpc.RpcError as error:
            # Expected: a trainer need not answer a goodbye, and may have stopped already.
            self._log.write(f"No answer to the goodbye ({_code(error).name}).")

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._channel.close()


def _request(output: Any | None) -> Any:
    return Envelope(header=EnvelopeHeader(status=STATUS_OK), unity_output=output)


def _code(error: grpc.RpcError) -> Any:
    return error.code()

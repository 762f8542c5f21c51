"""One episode of a warehouse as a web page that needs nothing else: record, encode, write."""

from bridge.replay.fields import EventReader, RobotField
from bridge.replay.recorder import record_episode, record_replay
from bridge.replay.recording import Recording, ReplayEvent
from bridge.replay.writer import write_replay

__all__ = [
    "EventReader",
    "Recording",
    "ReplayEvent",
    "RobotField",
    "record_episode",
    "record_replay",
    "write_replay",
]

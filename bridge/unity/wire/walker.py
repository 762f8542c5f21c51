"""Compiled kernels that read a request's bytes in two passes, without making an object per agent.

:func:`scan` walks over the whole message once and notes where everything is;
:func:`fill` then writes one behavior's agents into arrays. Both take fields in
any order, repeated values packed, unpacked or mixed, and skip unknown fields.

The bytes come from outside and are read by address, so every function here
obeys one rule: nothing is loaded before it is known to lie before ``stop``,
and a part's ``stop`` never lies behind that of the whole. Lengths are compared
with what is left, never added to a position first. Positions are offsets into
the message; a negative one is a fault (:func:`_fault`) and is passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

import bridge.unity.wire.layout as wire
from bridge.jit import kernel_part, lean_kernel

__all__ = ["count_observations", "fill", "scan"]

Bytes = NDArray[np.uint8]
Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


def _intrinsic(generator: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of compiled code from one that generates its instructions."""
    return cast(Callable[..., Any], intrinsic(generator))


@_intrinsic
def _address(typing_context: Any, array: Any) -> Any:
    """Address of an array's first element."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(view.data, context.get_value_type(types.int64))

    return types.int64(array), generate


@_intrinsic
def _byte(typing_context: Any, address: Any, offset: Any) -> Any:
    """The byte at an offset from an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        byte = builder.load(builder.gep(start, [arguments[1]]), align=1)
        return builder.zext(byte, ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@_intrinsic
def _float(typing_context: Any, address: Any, offset: Any) -> Any:
    """The four bytes at an offset from an address, as a float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = builder.inttoptr(builder.add(*arguments), ir.FloatType().as_pointer())
        return builder.load(where, align=1)

    return types.float32(types.int64, types.int64), generate


@_intrinsic
def _bits(typing_context: Any, address: Any, index: Any) -> Any:
    """Bits of the float32 with an index in an array that starts at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.inttoptr(arguments[0], ir.IntType(32).as_pointer())
        return builder.load(builder.gep(start, [arguments[1]]), align=4)

    return types.int32(types.int64, types.int64), generate


@_intrinsic
def _copy(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy ``size`` bytes between addresses; they do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, size_type = ir.IntType(8).as_pointer(), ir.IntType(64)
        memcpy = builder.module.declare_intrinsic("llvm.memcpy", [pointer, pointer, size_type])
        target, source = (builder.inttoptr(address, pointer) for address in arguments[:2])
        builder.call(memcpy, [target, source, arguments[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@kernel_part
def _fault(kind: int, position: int) -> int:
    return -(4 * position + kind)


@kernel_part
def _varint(base: int, position: int, stop: int) -> tuple[int, int]:
    """Value (64 bits, signed) and the position behind it; bits above the 64th are dropped."""
    if position < stop:
        byte = _byte(base, position)
        if byte < 0x80:
            return byte, position + 1
    return _long_varint(base, position, stop)


@kernel_part
def _long_varint(base: int, position: int, stop: int) -> tuple[int, int]:
    value = 0
    for index in range(wire.MAX_VARINT_BYTES):
        if position + index >= stop:
            break
        byte = _byte(base, position + index)
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    return 0, _fault(wire.FAULT_MALFORMED, position)


@kernel_part
def _field(base: int, position: int, stop: int) -> tuple[int, int, int]:
    """One field: tag, value, and the position behind it.

    The value is that of a varint, else the position where the content starts.
    """
    tag, start = _varint(base, position, stop)
    if start < 0:
        return tag, start, start
    if tag < 8 or tag > 0xFFFFFFFF:
        return tag, start, _fault(wire.FAULT_MALFORMED, position)
    wire_type = tag & 7
    if wire_type == wire.BYTES:
        length, content = _varint(base, start, stop)
        if content < 0 or length < 0 or length > stop - content:
            return tag, start, _fault(wire.FAULT_MALFORMED, position)
        return tag, content, content + length
    if wire_type == wire.VARINT:
        value, after = _varint(base, start, stop)
        return tag, value, after
    if wire_type == wire.FIXED32 or wire_type == wire.FIXED64:
        size = 4 if wire_type == wire.FIXED32 else 8
        return tag, start, (start + size if size <= stop - start else _fault(wire.FAULT_MALFORMED, position))
    return tag, start, _fault(wire.FAULT_RARE if wire_type == wire.GROUP else wire.FAULT_MALFORMED, position)


@kernel_part
def _scan_message(base: int, position: int, stop: int, head: Int64, entries: Int64, max_agents: int) -> int:
    while position < stop:
        tag, start, position = _field(base, position, stop)
        inside = position
        if inside >= 0 and tag == wire.MESSAGE_HEADER:
            inside = _scan_header(base, start, position, head)
        elif inside >= 0 and tag == wire.MESSAGE_OUTPUT:
            inside = _scan_output(base, start, position, head, entries, max_agents)
        if inside < 0:
            return inside
    return position


@kernel_part
def _scan_header(base: int, position: int, stop: int, head: Int64) -> int:
    while position < stop:
        tag, start, position = _field(base, position, stop)
        if position < 0:
            break
        if tag == wire.HEADER_STATUS:
            head[wire.STATUS] = np.int32(start)
        elif tag == wire.HEADER_MESSAGE:
            head[wire.MESSAGE], head[wire.MESSAGE + 1] = start, position
    return position


@kernel_part
def _scan_output(base: int, position: int, stop: int, head: Int64, entries: Int64, max_agents: int) -> int:
    while position < stop:
        tag, start, position = _field(base, position, stop)
        inside = position
        if inside >= 0 and tag == wire.OUTPUT_RL:
            inside = _scan_rl_output(base, start, position, head, entries, max_agents)
        elif inside >= 0 and tag == wire.OUTPUT_INITIALIZATION:
            if head[wire.INITIALIZATION] >= 0:  # a second one has to be merged with the first
                return _fault(wire.FAULT_RARE, start)
            head[wire.INITIALIZATION], head[wire.INITIALIZATION + 1] = start, position
        if inside < 0:
            return inside
    return position


@kernel_part
def _scan_rl_output(base: int, position: int, stop: int, head: Int64, entries: Int64, max_agents: int) -> int:
    while position < stop:
        tag, start, position = _field(base, position, stop)
        if position < 0:
            break
        if tag == wire.RL_SIDE_CHANNEL:
            head[wire.SIDE_CHANNEL], head[wire.SIDE_CHANNEL + 1] = start, position
        elif tag == wire.RL_AGENTS:
            if head[wire.NUM_ENTRIES] == len(entries):
                return _fault(wire.FAULT_TOO_MANY, start)
            inside = _scan_entry(base, start, position, head, entries[head[wire.NUM_ENTRIES]], max_agents)
            if inside < 0:
                return inside
            head[wire.NUM_ENTRIES] += 1
    return position


@kernel_part
def _scan_entry(base: int, position: int, stop: int, head: Int64, entry: Int64, max_agents: int) -> int:
    """One behavior: an entry of the map from names to lists of agents."""
    entry[:] = 0
    has_value = False
    while position < stop:
        tag, start, position = _field(base, position, stop)
        if position < 0:
            break
        if tag == wire.ENTRY_KEY:
            entry[0], entry[1] = start, position
        elif tag == wire.ENTRY_VALUE and not has_value:
            has_value = True
            inside = _scan_list(base, start, position, head, entry, max_agents)
            if inside < 0:
                return inside
        else:
            return _fault(wire.FAULT_RARE, start)
    return position


@kernel_part
def _scan_list(base: int, position: int, stop: int, head: Int64, entry: Int64, max_agents: int) -> int:
    """Count the agents in a list."""
    entry[2], entry[3] = position, stop
    while position < stop:
        tag, start, position = _field(base, position, stop)
        if position < 0:
            break
        if tag == wire.LIST_AGENT:
            if entry[6] == 0:
                entry[4], entry[5] = start, position
            entry[6] += 1
            head[wire.NUM_AGENTS] += 1
            if head[wire.NUM_AGENTS] > max_agents:
                return _fault(wire.FAULT_TOO_MANY, start)
    return position


@lean_kernel
def scan(data: Bytes, head: Int64, entries: Int64, max_agents: int) -> int:
    """Note where everything in a request is.

    Args:
        data: (L,) uint8, the request.
        head: (wire.HEAD_SIZE,) int64, filled: status, spans, numbers of entries and agents, position of a fault.
        entries: (K, wire.ENTRY_COLUMNS) int64, filled; a name may come twice, then the later one counts.
        max_agents: Most agents of all behaviors together.

    Returns:
        0, or the kind of fault.
    """
    head[:] = -1
    head[wire.STATUS] = head[wire.NUM_ENTRIES] = head[wire.NUM_AGENTS] = 0
    end = _scan_message(_address(data), 0, len(data), head, entries, max_agents)
    if end >= 0:
        return 0
    head[wire.FAULT_AT] = -end // 4
    return -end % 4


@lean_kernel
def count_observations(data: Bytes, position: int, stop: int) -> int:
    """Number of observations of the agent between two positions that :func:`scan` found; negative at a fault."""
    base = _address(data)
    count = 0
    while position < stop:
        tag, _, position = _field(base, position, stop)
        if position < 0:
            return position
        if tag == wire.AGENT_OBSERVATION:
            count += 1
    return count


@lean_kernel
def fill(data: Bytes, entry: Int64, shapes: Int64, columns: wire.Columns) -> int:
    """Write the agents of one behavior into arrays.

    What does not fit is reported, not raised; what was written by then is garbage.

    Args:
        data: (L,) uint8, the request.
        entry: (ENTRY_COLUMNS,) int64, a row of what :func:`scan` filled.
        shapes: (S, 3 + MAX_RANK) int64, per sensor: first column, number of values, rank, shape.
        columns: Filled.

    Returns:
        0, or a negative number ``n``: a fault of kind ``-n % 4`` at byte ``-n // 4``.
    """
    base = _address(data)
    position, stop = entry[2], entry[3]
    columns.numbers[:] = 0
    columns.rewards[:] = 0.0
    columns.flags[:] = False
    columns.allowed[:] = True
    columns.report[:] = 0
    row = 0
    while position < stop and columns.report[0] == 0:
        tag, start, position = _field(base, position, stop)
        if position < 0:
            return position
        if tag != wire.LIST_AGENT:
            continue
        if row == len(columns.observations):  # every agent before this one fitted: there are not bytes enough for that
            _misfit(columns.report, wire.BAD_SIZE, row, 0, -1)
            break
        inside = _agent(base, start, position, row, shapes, columns)
        if inside < 0:
            return inside
        row += 1
    return 0


@kernel_part
def _misfit(report: Int64, what: int, row: int, sensor: int, value: int) -> None:
    """Note the first thing that does not fit."""
    if report[0] == 0:
        report[0], report[1], report[2], report[3] = what, row, sensor, value


@kernel_part
def _agent(base: int, position: int, stop: int, row: int, shapes: Int64, columns: wire.Columns) -> int:
    """The fields of one agent."""
    sensor, num_masked = 0, 0
    numbers, rewards, flags = columns.numbers[:, row], columns.rewards[:, row], columns.flags[:, row]
    while position < stop:
        tag, start, position = _field(base, position, stop)
        inside = position
        if inside < 0:
            return inside
        if tag == wire.AGENT_OBSERVATION:
            if sensor < len(shapes):
                inside = _sensor(base, start, position, row, sensor, shapes[sensor], columns)
            sensor += 1
        elif tag == wire.AGENT_MASK_PACKED or tag == wire.AGENT_MASK:
            num_masked, inside = _mask(base, tag, start, position, num_masked, columns.allowed[row])
        elif tag == wire.AGENT_ID or tag == wire.AGENT_GROUP:
            numbers[0 if tag == wire.AGENT_ID else 1] = np.int32(start)
        elif tag == wire.AGENT_REWARD or tag == wire.AGENT_GROUP_REWARD:
            rewards[0 if tag == wire.AGENT_REWARD else 1] = _float(base, start)
        elif tag == wire.AGENT_DONE or tag == wire.AGENT_INTERRUPTED:
            flags[0 if tag == wire.AGENT_DONE else 1] = start != 0
        if inside < 0:
            return inside
    if sensor != len(shapes):
        columns.report[0] = 0  # says more than what it did to single sensors
        _misfit(columns.report, wire.BAD_SENSOR_COUNT, row, 0, sensor)
    if flags[0]:  # the mask of an ended life is left over from its last decision
        columns.allowed[row, :] = True
    elif num_masked > 0 and columns.allowed.shape[1] > 0 and num_masked != columns.allowed.shape[1]:
        _misfit(columns.report, wire.BAD_MASK, row, 0, num_masked)
    for index in range(2):
        if not np.isfinite(rewards[index]):
            _misfit(columns.report, wire.BAD_REWARD + index, row, 0, 0)
    return position


@kernel_part
def _mask(base: int, tag: int, start: int, stop: int, count: int, allowed: Bool) -> tuple[int, int]:
    """Append masks to a row of choices; returns the new number of masks, and a negative number at a fault."""
    if tag == wire.AGENT_MASK:
        if count < len(allowed):
            allowed[count] = start == 0
        return count + 1, stop
    while start < stop:
        value, start = _varint(base, start, stop)
        if start < 0:
            break
        if count < len(allowed):
            allowed[count] = value == 0
        count += 1
    return count, start


@kernel_part
def _sensor(base: int, position: int, stop: int, row: int, sensor: int, shape: Int64, columns: wire.Columns) -> int:
    """One observation of one agent."""
    count, rank, compression, size = 0, 0, 0, shape[1]
    target = _address(columns.observations) + 4 * (row * columns.observations.shape[1] + shape[0])
    data = columns.compressed[row, sensor]
    data[:] = -1
    while position < stop:
        tag, start, position = _field(base, position, stop)
        inside = position
        if inside < 0:
            return inside
        if tag == wire.SENSOR_FLOATS:
            # Values and compressed data are alternatives: the later one drops the earlier one.
            count = count if data[0] < 0 else 0
            data[0], data[1] = -1, -1
            count, inside = _values(base, start, position, count, size, target)
        elif tag == wire.SENSOR_SHAPE or tag == wire.SENSOR_SHAPE_PACKED:
            rank, inside = _shape(base, tag, start, position, rank, shape)
        elif tag == wire.SENSOR_COMPRESSION:
            compression = int(np.int32(start))
        elif tag == wire.SENSOR_COMPRESSED:
            data[0], data[1] = start, position
        elif tag == wire.SENSOR_MAPPING_PACKED or tag == wire.SENSOR_MAPPING:
            if data[2] >= 0 or tag == wire.SENSOR_MAPPING:  # in pieces: protobuf has to put them together
                return _fault(wire.FAULT_RARE, start)
            data[2], data[3] = start, position
        if inside < 0:
            return inside
    count = count if data[0] < 0 else 0
    if rank < 0 or (rank > 0 and rank != shape[2]):
        _misfit(columns.report, wire.BAD_SHAPE, row, sensor, abs(rank))
    if compression == wire.COMPRESSION_PNG:
        columns.report[4] += 1
        if data[0] < 0:
            _misfit(columns.report, wire.BAD_IMAGE, row, sensor, 0)
    elif compression != wire.COMPRESSION_NONE:
        _misfit(columns.report, wire.BAD_COMPRESSION, row, sensor, compression)
    elif count != size:
        _misfit(columns.report, wire.BAD_SIZE, row, sensor, count)
    else:
        wrong = _first_not_finite(target, size)
        if wrong >= 0:
            _misfit(columns.report, wire.BAD_VALUE, row, sensor, wrong)
    return position


@kernel_part
def _shape(base: int, tag: int, start: int, stop: int, rank: int, expected: Int64) -> tuple[int, int]:
    """Compare dimensions with those expected; returns how many there were so far, negative if one differs."""
    value, after = start, stop
    position = start if tag == wire.SENSOR_SHAPE_PACKED else stop - 1
    while position < stop:
        if tag == wire.SENSOR_SHAPE_PACKED:
            value, after = _varint(base, position, stop)
            if after < 0:
                return rank, after
        fits = 0 <= rank < expected[2] and int(np.int32(value)) == expected[3 + rank]
        rank = rank + 1 if fits else -abs(rank) - 1
        position = after
    return rank, stop


@kernel_part
def _values(base: int, position: int, stop: int, count: int, size: int, target: int) -> tuple[int, int]:
    """Append values to those of a sensor; returns how many there are, also beyond its size."""
    while position < stop:
        tag, start, position = _field(base, position, stop)
        if position < 0:
            break
        if tag == wire.FLOATS_DATA or tag == wire.FLOATS_DATA_PACKED:
            length = position - start
            if length % 4 != 0:
                return count, _fault(wire.FAULT_MALFORMED, start)
            if length // 4 <= size - count:
                _copy(target + 4 * count, base + start, length)
            count += length // 4
    return count, position


@kernel_part
def _first_not_finite(address: int, size: int) -> int:
    """Index of the first float that is infinite or no number; -1 if there is none."""
    wrong = False
    for index in range(size):  # vector code, as it has no way out in the middle
        wrong |= (_bits(address, index) & wire.EXPONENT) == wire.EXPONENT
    if wrong:
        for index in range(size):
            if (_bits(address, index) & wire.EXPONENT) == wire.EXPONENT:
                return index
    return -1

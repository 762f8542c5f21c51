"""Visual observations as PNG: against the decoder of mlagents_envs, and damaged in every way."""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from bridge.errors import UnityProtocolError
from bridge.unity.compat import import_mlagents_envs
from bridge.unity.decode import OutputDecoder, PlayerOutput
from bridge.unity.image_formats import ImageFormats
from bridge.unity.images import ImageError, ImageFormat, sends_channels_first
from bridge.unity.messages import COMPRESSION_PNG, AgentInfo, BrainParameters, Header, UnityMessage
from bridge.unity.steps import batch_to_steps
from bridge.unity.wire import read_request

NAME = "AGV?team=0"


def png(picture: NDArray[np.uint8], **options: Any) -> bytes:
    """A PNG of a (height, width, 3) uint8 picture."""
    encoded = io.BytesIO()
    Image.fromarray(picture).save(encoded, "PNG", compress_level=1, **options)
    return encoded.getvalue()


def pngs(rng: np.random.Generator, height: int, width: int, count: int) -> bytes:
    return b"".join(png(rng.integers(0, 256, (height, width, 3), np.uint8)) for _ in range(count))


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def header(width: int, height: int, bits: int = 8, colour: int = 2) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0))


def visual_agent(agent_id: int, shape: list[int], data: bytes, mapping: list[int]) -> Any:
    """A vector, then a picture."""
    info = AgentInfo(id=agent_id)
    info.observations.add(shape=[2], name="vector").float_data.data.extend([1.0, 2.0])
    info.observations.add(
        shape=shape,
        compression_type=COMPRESSION_PNG,
        compressed_data=data,
        compressed_channel_mapping=mapping,
        name="camera",
    )
    return info


def message(agents: list[Any], *, describe: bool = True) -> bytes:
    request = UnityMessage(header=Header(status=200))
    request.unity_output.rl_output.agentInfos[NAME].value.extend(agents)
    if describe:
        described = BrainParameters(brain_name=NAME)
        described.action_spec.num_continuous_actions = 1
        request.unity_output.rl_initialization_output.brain_parameters.append(described)
    data: bytes = request.SerializeToString()
    return data


def decode(agents: list[Any], *, channels_first: bool) -> tuple[OutputDecoder, PlayerOutput]:
    decoder = OutputDecoder(channels_first=channels_first)
    return decoder, decoder.decode(read_request(message(agents)))


CASES: list[tuple[int, list[int], int]] = [  # channels, mapping, PNGs
    (3, [], 1),
    (1, [], 1),
    (2, [], 1),
    (4, [], 2),
    (6, [], 2),
    (1, [0, 0, 0], 1),
    (3, [0, 1, 2], 1),
    (2, [1, -1, 0], 1),
    (4, [0, 0, 0, 1, 2, 3, -1, -1, -1], 3),
    (5, [4, 3, 2, 1, 0, 0], 2),
]


@pytest.mark.parametrize(("channels", "mapping", "count"), CASES)
def test_pictures_equal_those_of_mlagents_envs_when_they_are_random(
    channels: int, mapping: list[int], count: int
) -> None:
    import_mlagents_envs()
    oracle = import_module("mlagents_envs.rpc_utils").steps_from_proto
    their_info = import_module("mlagents_envs.communicator_objects.agent_info_pb2").AgentInfoProto
    rng = np.random.default_rng([channels, count, len(mapping)])
    height, width = 7, 11
    data = [pngs(rng, height, width, count) for _ in range(3)]
    last = [visual_agent(n, [height, width, channels], one, mapping) for n, one in enumerate(data)]
    last[2].done = True
    decoder, output = decode(last, channels_first=False)
    behavior = decoder.behaviors[NAME]
    ours = batch_to_steps(output.batches[NAME], behavior)
    theirs = oracle([their_info.FromString(a.SerializeToString()) for a in last], behavior.to_mlagents())
    for mine, its in zip(ours, theirs, strict=True):
        assert mine.obs[1].shape == its.obs[1].shape == (len(mine), height, width, channels)
        np.testing.assert_allclose(mine.obs[1], its.obs[1], atol=1e-6)
        np.testing.assert_array_equal(mine.obs[0], its.obs[0])
    first = [visual_agent(n, [channels, height, width], one, mapping) for n, one in enumerate(data)]
    decoder, output = decode(first, channels_first=True)
    picture = output.batches[NAME].observations[:, 2:].reshape(3, channels, height, width)
    np.testing.assert_array_equal(picture[:2].transpose(0, 2, 3, 1), ours[0].obs[1])


def test_pictures_with_texts_animations_and_rows_in_seven_passes_are_read() -> None:
    rng = np.random.default_rng(3)
    pictures = rng.integers(0, 256, (2, 9, 5, 3), np.uint8)
    whole = png(pictures[0])
    extra = chunk(b"acTL", struct.pack(">II", 2, 0)) + chunk(b"tEXt", b"a\0" + b"b" * 100) + chunk(b"IHDR", b"?")
    end_of_header = 8 + 25
    decorated = whole[:end_of_header] + extra + whole[end_of_header:]
    values = np.full(6 * 45, np.nan, np.float32)
    ImageFormat.of((6, 9, 5), (), channels_first=True).decode(decorated + png(pictures[1]), values)
    expected = np.concatenate(list(pictures), axis=2).transpose(2, 0, 1)
    np.testing.assert_array_equal(values.reshape(6, 9, 5), expected / np.float32(255))


def test_second_message_is_read_like_the_first_when_the_sensor_is_known() -> None:
    rng = np.random.default_rng(4)
    picture = rng.integers(0, 256, (4, 4, 3), np.uint8)
    decoder, _ = decode([visual_agent(1, [3, 4, 4], pngs(rng, 4, 4, 1), [2, 1, 0])], channels_first=True)
    plain = visual_agent(2, [3, 4, 4], b"", [])
    plain.observations[1].compression_type = 0
    plain.observations[1].float_data.data.extend(np.linspace(0, 1, 48).tolist())
    again = message([visual_agent(1, [3, 4, 4], png(picture), [2, 1, 0]), plain], describe=False)
    seen = decoder.decode(read_request(again)).batches[NAME].observations[:, 2:].reshape(2, 3, 4, 4)
    np.testing.assert_array_equal(seen[0], picture.transpose(2, 0, 1)[::-1] / np.float32(255))
    np.testing.assert_allclose(seen[1].ravel(), np.linspace(0, 1, 48), atol=1e-7)


def test_mapping_is_that_of_each_observation() -> None:
    rng = np.random.default_rng(8)
    picture = rng.integers(0, 256, (4, 4, 3), np.uint8)
    as_is = picture.transpose(2, 0, 1) / np.float32(255)
    plain = visual_agent(1, [3, 4, 4], b"", [])
    plain.observations[1].compression_type = 0
    plain.observations[1].float_data.data.extend([0.5] * 48)
    decoder, _ = decode([plain], channels_first=True)  # neither a picture nor a mapping in the first message

    def seen(*agents: Any) -> NDArray[np.float32]:
        output = decoder.decode(read_request(message(list(agents), describe=False)))
        return output.batches[NAME].observations[:, 2:].reshape(-1, 3, 4, 4)

    mappings: list[list[int]] = [[], [2, 1, 0], [0, 1, 2]]
    views = seen(*[visual_agent(n, [3, 4, 4], png(picture), mapping) for n, mapping in enumerate(mappings)])
    np.testing.assert_array_equal(views[0], as_is)
    np.testing.assert_array_equal(views[1], as_is[::-1])
    np.testing.assert_array_equal(views[2], as_is)
    # In pieces, packed and unpacked: rare forms of the same list.
    split = visual_agent(7, [3, 4, 4], png(picture), [])
    observation = split.observations[1].SerializeToString() + b"\x2a\x01\x02\x28\x01\x28\x00"
    del split.observations[1]
    agent = split.SerializeToString() + b"\x6a" + varint(len(observation)) + observation
    listed = b"\x0a" + varint(len(agent)) + agent
    entry = b"\x0a" + varint(len(NAME)) + NAME.encode() + b"\x12" + varint(len(listed)) + listed
    rl_output = b"\x12" + varint(len(entry)) + entry
    output = b"\x0a" + varint(len(rl_output)) + rl_output
    data = b"\x0a\x03\x08\xc8\x01\x12" + varint(len(output)) + output
    view = decoder.decode(read_request(data)).batches[NAME].observations[0, 2:].reshape(3, 4, 4)
    np.testing.assert_array_equal(view, as_is[::-1])


def test_formats_are_not_kept_without_end_when_every_observation_has_another_mapping() -> None:
    formats = ImageFormats()
    targets = list(itertools.product(range(3), repeat=6))
    for mapping in targets:
        if set(mapping) == {0, 1, 2}:
            assert formats.of((3, 4, 4), bytes(mapping), True).targets == mapping
    assert len(targets) > len(formats._kept) <= 256
    with pytest.raises(ImageError, match=r"a channel mapping, got 1 bytes that are none"):
        formats.of((3, 4, 4), b"\x80", True)
    with pytest.raises(ImageError, match=r"a mapping of at most 3072 channels, got 30721 bytes"):
        formats.of((3, 4, 4), bytes(30721), True)


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def deep_png(values: NDArray[np.uint16], colour: int) -> bytes:
    """A PNG of 16 bits per value; (height, width, channels)."""
    height, width = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    parts = [header(width, height, 16, colour), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def packed_png(values: NDArray[np.uint8], bits: int, colour: int, palette: bytes = b"") -> bytes:
    """A PNG of one value of a few bits per pixel; (height, width)."""
    height, width = values.shape
    spread = (values[..., None] >> np.arange(bits - 1, -1, -1)) & 1
    rows = b"".join(b"\0" + np.packbits(row).tobytes() for row in spread.reshape(height, width * bits))
    parts = [header(width, height, bits, colour), chunk(b"PLTE", palette) if palette else b""]
    parts += [chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def read(data: bytes, height: int = 5, width: int = 7) -> NDArray[np.float32]:
    """(height, width, 3), what is seen in a PNG."""
    values = np.full(height * width * 3, np.nan, np.float32)
    ImageFormat.of((3, height, width), (), channels_first=True).decode(data, values)
    return values.reshape(3, height, width).transpose(1, 2, 0)


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4)])
def test_pictures_of_8_bits_are_seen_in_red_green_and_blue_without_transparency(mode: str, channels: int) -> None:
    picture = np.random.default_rng(channels).integers(0, 256, (5, 7, channels), np.uint8)
    encoded = io.BytesIO()
    Image.fromarray(picture.squeeze(), mode=None).save(encoded, "PNG")
    colours = picture[..., :3] if channels > 2 else picture[..., :1].repeat(3, axis=-1)
    assert Image.open(encoded).mode == mode
    np.testing.assert_array_equal(read(encoded.getvalue()), colours / np.float32(255))


@pytest.mark.parametrize(("colour", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_pictures_of_16_bits_are_seen_by_their_upper_8(colour: int, channels: int) -> None:
    values = np.random.default_rng(colour).integers(0, 1 << 16, (5, 7, channels)).astype(np.uint16)
    colours = values[..., :3] if channels > 2 else values[..., :1].repeat(3, axis=-1)
    np.testing.assert_array_equal(read(deep_png(values, colour)), (colours >> 8) / np.float32(255))


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_grey_of_few_bits_and_palettes_are_seen_in_red_green_and_blue(bits: int) -> None:
    rng = np.random.default_rng(bits)
    values = rng.integers(0, 1 << bits, (5, 7)).astype(np.uint8)
    grey = np.rint(values * (255 / ((1 << bits) - 1))) / np.float32(255)
    np.testing.assert_allclose(read(packed_png(values, bits, 0)), grey[..., None].repeat(3, -1), atol=1e-6)
    palette = rng.integers(0, 256, (1 << bits, 3), np.uint8)
    seen = read(packed_png(values, bits, 3, palette.tobytes()))
    np.testing.assert_array_equal(seen, palette[values] / np.float32(255))


def test_colours_beyond_the_palette_are_black() -> None:
    seen = read(packed_png(np.full((5, 7), 9, np.uint8), 8, 3, bytes([255] * 6)))
    assert not seen.any()


def test_pictures_of_all_kinds_are_read_or_refused_when_their_bytes_are_damaged() -> None:
    rng = np.random.default_rng(9)
    values = rng.integers(0, 1 << 16, (5, 7, 4)).astype(np.uint16)
    whole = [deep_png(values[..., :channels], colour) for colour, channels in ((0, 1), (2, 3), (4, 2), (6, 4))]
    whole += [packed_png((values[..., 0] % 4).astype(np.uint8), bits, 3, bytes(12)) for bits in (2, 4, 8)]
    refused = 0
    for _ in range(1500):
        data = bytearray(whole[int(rng.integers(len(whole)))])
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        try:
            seen = read(bytes(data))
        except ImageError:
            refused += 1
        else:
            assert ((seen >= 0) & (seen <= 1)).all()
    assert refused > 1000


WHOLE = png(np.zeros((4, 4, 3), np.uint8))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", r"compressed data as announced|PNG 0 at byte 0, got b''"),
        (b"GIF89a..", r"PNG 0 at byte 0, got b'GIF89a..'"),
        (WHOLE + b"\0", r"1 PNGs for 3 channels, got 1 bytes more"),
        (WHOLE + WHOLE, r"1 PNGs for 3 channels, got \d+ bytes more"),
        (WHOLE[:-1], r"a whole PNG at byte 0, got one that ends at byte \d+"),
        (WHOLE[:20], r"a whole PNG at byte 0, got one that ends at byte 20"),
        (WHOLE[:8] + WHOLE[33:], r"a PNG that begins with its sizes at byte 0, got the chunk b'IDAT'"),
        (WHOLE[:33] + WHOLE[-12:], r"a whole PNG, got a damaged one at byte 0"),
        (WHOLE[:8] + header(60000, 60000) + WHOLE[33:], r"PNGs of 4 x 4 pixels, got one of 60000 x 60000"),
        (WHOLE[:8] + header(4, 4, 16) + WHOLE[33:], r"a whole PNG, got a damaged one at byte 0"),
        (WHOLE[:8] + header(4, 4, 4) + WHOLE[33:], r"of bits that they may have, got 4 bits of colour type 2"),
        (WHOLE[:8] + header(4, 4, 8, 5) + WHOLE[33:], r"of bits that they may have, got 8 bits of colour type 5"),
        (WHOLE[:8] + header(4, 4, 8, 3) + WHOLE[33:], r"a palette in a PNG of colour type 3 at byte 0, got none"),
        (WHOLE[:8] + header(4, 4, 8, 3) + chunk(b"PLTE", b"12"), r"a palette of 1 to 256 colours, got one of 2 bytes"),
        (WHOLE[:8] + header(4, 4, 8, 3) + chunk(b"PLTE", bytes(771)), r"a palette of 1 to 256 colours, got one of 771"),
    ],
)
def test_agent_is_refused_when_its_picture_is_another(data: bytes, expected: str) -> None:
    with pytest.raises(
        UnityProtocolError, match=rf"^behavior 'AGV\?team=0': agent 7: sensor 1 \('camera'\): expected .*{expected}"
    ):
        decode([visual_agent(7, [3, 4, 4], data, [])], channels_first=True)


@pytest.mark.parametrize(
    ("shape", "mapping", "expected"),
    [
        ([48], [], r"compressed values only where there are three dimensions, got the shape \(48,\)"),
        ([4, 12], [], r"compressed values only where there are three dimensions"),
        ([3, 4, 4], [0, 1], r"PNGs of 3 channels each, got one of 2"),
        ([3, 4, 4], [0, 1, 3], r"to all of the 3 channels and to no others, got \[0, 1, 3\]"),
        ([3, 4, 4], [0, 1, -2], r"to all of the 3 channels and to no others, got \[0, 1, -2\]"),
        ([3, 4, 4], [0, 1, 1], r"to all of the 3 channels"),
        ([3, 4, 4], [-1] * 3, r"to all of the 3 channels"),
        ([3, 4, 4], [0, 1, 2] * 1025, r"a mapping of at most 3072 channels, got 3075"),
        ([4000, 2, 2], [], r"at most 3072 channels in PNGs, got 4000 \(channel, row, column\)"),
        ([1, 2, 3, 4], [], r"1 to 3 dimensions, got 4"),
        ([1 << 20, 1 << 20, 3], [], r"1 to 16777216 values, got the shape"),
        ([-1, -1, 3], [], r"1 to 16777216 values, got the shape"),
    ],
)
def test_observation_is_refused_when_no_picture_has_its_shape(
    shape: list[int], mapping: list[int], expected: str
) -> None:
    with pytest.raises(UnityProtocolError, match=rf"^behavior 'AGV\?team=0': .*'camera'.*: expected .*{expected}"):
        decode([visual_agent(7, shape, WHOLE, mapping)], channels_first=True)


def test_agents_are_refused_without_using_memory_when_their_pictures_are_very_large() -> None:
    agents = [visual_agent(n, [3, 2000, 2000], b"x", []) for n in range(6)]
    with pytest.raises(UnityProtocolError, match=r"at most 67108864 values of visual observations .* 6 agents"):
        decode(agents, channels_first=True)


def test_pictures_are_read_or_refused_when_their_bytes_are_damaged() -> None:
    rng = np.random.default_rng(5)
    formats = [ImageFormat.of((3, 6, 6), (), True), ImageFormat.of((6, 6, 4), (), False)]
    whole = [pngs(rng, 6, 6, 1), pngs(rng, 6, 6, 2)]
    refused = 0
    for _ in range(3000):
        which = int(rng.integers(2))
        data = bytearray(whole[which])
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(data)))
            kind = int(rng.integers(4))
            if kind == 0:
                data[at] = int(rng.integers(256))
            elif kind == 1:
                del data[at : at + int(rng.integers(1, 20))]
            elif kind == 2:
                data[at:at] = rng.bytes(int(rng.integers(1, 20)))
            else:
                piece = data[at : at + int(rng.integers(1, 40))]
                data[at:at] = piece
        values = np.full(formats[which].num_channels * 36, np.nan, np.float32)
        try:
            formats[which].decode(bytes(data), values)
        except ImageError:
            refused += 1
        else:
            assert ((values >= 0) & (values <= 1)).all()
    assert refused > 2000


@pytest.mark.parametrize("tampered", ["IDAT", "header"])
def test_pictures_are_read_or_refused_when_their_checksums_are_right(tampered: str) -> None:
    rng = np.random.default_rng(6)
    layout = ImageFormat.of((3, 6, 6), (), True)
    pixels = zlib.compress(bytes(6 * 19))
    for _ in range(500):
        content = bytearray(pixels if tampered == "IDAT" else struct.pack(">IIBBBBB", 6, 6, 8, 2, 0, 0, 0))
        content[int(rng.integers(len(content)))] = int(rng.integers(256))
        head = chunk(b"IHDR", bytes(content)) if tampered == "header" else header(6, 6)
        data = chunk(b"IDAT", bytes(content) if tampered == "IDAT" else pixels)
        values = np.full(108, np.nan, np.float32)
        try:
            layout.decode(WHOLE[:8] + head + data + chunk(b"IEND", b""), values)
        except ImageError:
            continue
        assert ((values >= 0) & (values <= 1)).all()


@pytest.mark.parametrize(
    ("version", "channels_first"),
    [("2.0.1", False), ("2.3.0-exp.3", False), ("3.0.0-exp.1", True), ("4.1.0", True), ("10.0.0", True), ("", True)],
)
def test_order_of_channels_follows_the_package_version(version: str, channels_first: bool) -> None:
    assert sends_channels_first(version) is channels_first

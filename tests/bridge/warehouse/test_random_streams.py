"""Random numbers: the published generator, and independence of how environments are split."""

from __future__ import annotations

import numpy as np

from bridge.warehouse.random_streams import Purpose, draw, stream_keys, uniform

_MASK = (1 << 64) - 1


def _splitmix64(state: int) -> int:
    """One output of SplitMix64 for a state that is already advanced."""
    bits = state & _MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


def test_draw_is_splitmix64_for_any_key_and_counter() -> None:
    for key in (0, 1, 0x0123456789ABCDEF, _MASK):
        for counter in (0, 1, 2, 12345):
            expected = _splitmix64(key + (counter + 1) * 0x9E3779B97F4A7C15)
            assert int(draw(np.uint64(key), counter)) == expected


def test_draw_gives_the_published_sequence_for_seed_1234567() -> None:
    # First outputs of the reference implementation.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(draw(np.uint64(1234567), counter)) for counter in range(4)] == published


def test_uniform_is_uniform_in_the_unit_interval() -> None:
    values = np.array([uniform(np.uint64(7), counter) for counter in range(20_000)])
    assert values.min() >= 0.0
    assert values.max() < 1.0
    counts, _ = np.histogram(values, bins=20, range=(0.0, 1.0))
    # Chi-squared with 19 degrees of freedom: 43.8 is the 0.1% point.
    assert ((counts - 1000.0) ** 2 / 1000.0).sum() < 43.8


def test_stream_keys_do_not_depend_on_the_split_of_environments() -> None:
    envs, seeds, episodes = np.arange(6), np.full(6, 3, np.uint64), np.arange(6) % 2
    whole = stream_keys(seeds, envs, episodes)
    parts = [stream_keys(seeds[part], envs[part], episodes[part]) for part in (slice(0, 1), slice(1, 6))]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_stream_keys_differ_by_seed_environment_episode_and_purpose() -> None:
    grid = np.stack(np.meshgrid(np.arange(20), np.arange(20), np.arange(20)), axis=-1).reshape(-1, 3)
    keys = stream_keys(grid[:, 0].astype(np.uint64), grid[:, 1], grid[:, 2])
    assert keys.shape == (8000, len(Purpose))
    assert len(np.unique(keys)) == keys.size

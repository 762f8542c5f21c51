"""Random streams that do not depend on how the work is divided.

Every episode has a stream of its own, keyed by the seed of the run, the index
of the environment among all environments, and the number of the episode. Any
number of workers therefore plays the same episodes.
"""

from __future__ import annotations

import numpy as np

__all__ = ["episode_generator", "episode_seed", "fresh_seed", "scenario_chance", "swap_seed"]


# Last keys of streams that are not an episode's own; those of episodes have two keys.
_SCENARIO, _SWAP = 1, 1 << 31


def _sequence(seed: int, env: int, episode: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(entropy=seed, spawn_key=(env, episode))


def episode_generator(seed: int, env: int, episode: int) -> np.random.Generator:
    """The random stream of one episode.

    Args:
        seed: Seed of the run, >= 0.
        env: Index of the environment among all environments of the run.
        episode: Number of the episode since the seeded reset.
    """
    return np.random.default_rng(_sequence(seed, env, episode))


def episode_seed(seed: int, env: int, episode: int) -> int:
    """The stream's seed for a world that wants an integer, in [0, 2**31).

    Arguments as in :func:`episode_generator`.
    """
    return int(_sequence(seed, env, episode).generate_state(1, np.uint32)[0] >> 1)


def fresh_seed() -> int:
    """A seed from the operating system's entropy, in [0, 2**31)."""
    return int(np.random.SeedSequence().generate_state(1, np.uint32)[0] >> 1)


def scenario_chance(seed: int, env: int, episode: int) -> float:
    """The number in [0, 1) that decides which scenario of several an episode has.

    Arguments as in :func:`episode_generator`; independent of the episode's own stream.
    """
    sequence = np.random.SeedSequence(entropy=seed, spawn_key=(env, episode, _SCENARIO))
    return float(np.random.default_rng(sequence).random())


def swap_seed(seed: int, episode: int) -> int:
    """Seed of the episodes that begin with a change of scenario, in [2**47, 2**48): none that a user would give.

    Larger ones could not be sent to a Unity player.
    """
    drawn = np.random.SeedSequence(entropy=seed, spawn_key=(episode, _SWAP)).generate_state(1, np.uint64)[0]
    return (1 << 47) | (int(drawn) >> 17)

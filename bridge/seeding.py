"""Random streams that do not depend on how the work is divided.

Every episode has a stream of its own, keyed by the seed of the run, the index
of the environment among all environments, and the number of the episode. Any
number of workers therefore plays the same episodes.
"""

from __future__ import annotations

import numpy as np

__all__ = ["episode_generator", "episode_seed", "fresh_seed"]


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

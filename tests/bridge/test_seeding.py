"""Random streams keyed by seed, environment and episode."""

import itertools

from bridge.seeding import episode_generator, episode_seed, fresh_seed


def test_episode_seed_is_the_same_when_asked_again():
    assert [episode_seed(3, env, 2) for env in range(5)] == [episode_seed(3, env, 2) for env in range(5)]


def test_episode_seed_differs_when_any_part_of_the_key_does():
    keys = list(itertools.product((0, 1, 2**40), (0, 1, 2), (0, 1, 2)))
    seeds = {episode_seed(*key) for key in keys}
    assert len(seeds) == len(keys)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_episode_generators_differ_when_environment_and_episode_are_swapped():
    first = episode_generator(1, 2, 3).integers(1 << 60, size=4)
    swapped = episode_generator(1, 3, 2).integers(1 << 60, size=4)
    assert first.tolist() == episode_generator(1, 2, 3).integers(1 << 60, size=4).tolist()
    assert first.tolist() != swapped.tolist()


def test_fresh_seed_differs_when_drawn_again():
    assert len({fresh_seed() for _ in range(8)}) == 8

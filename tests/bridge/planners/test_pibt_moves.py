"""The PIBT kernel alone: against the paper's recursion, and on floors drawn by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.maps import load_layout_file
from bridge.maps.floor import largest_component, without_dead_ends
from bridge.planners.pibt import plan_moves
from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import Layout, distances_from

Int = np.ndarray


class World:
    """Robots that move as planned, towards goals that the test sets."""

    def __init__(self, layout: Layout, starts: list[int], goal_cells: list[int]) -> None:
        self.neighbours = make_moves(layout)
        self.goal_cells = np.unique(goal_cells)
        self.distance = np.stack([distances_from(layout, int(cell)) for cell in self.goal_cells])
        self.cells = np.array([starts], np.int32)
        self.goals = np.zeros((1, len(starts)), np.int32)
        self.waiting = np.zeros(len(starts), np.int64)
        self.alive = np.ones((1, len(starts)), np.bool_)
        self.movable = np.ones((1, len(starts)), np.bool_)
        self.steps = np.zeros(1, np.int32)

    @property
    def num_robots(self) -> int:
        return self.cells.shape[1]

    @property
    def priority(self) -> Int:
        slots = np.arange(self.num_robots)[::-1]
        return (self.waiting * self.num_robots + slots)[None]

    def set_goal(self, robot: int, cell: int) -> None:
        self.goals[0, robot] = np.searchsorted(self.goal_cells, cell)

    def plan(self, seed: int = 0) -> Int:
        moves = np.empty((1, self.num_robots), np.int32)
        zeros = np.zeros(1, np.int64)
        plan_moves(
            self.cells,
            self.goals,
            self.alive,
            self.movable,
            self.priority,
            self.neighbours,
            self.distance,
            np.uint64(seed),
            zeros.astype(np.uint64),
            zeros,
            self.steps,
            moves,
        )
        return moves[0]

    def step(self) -> Int:
        """Move all robots; returns which of them stand on their goals. Fails on any conflict."""
        before = self.cells[0].copy()
        after = self.neighbours[before, self.plan()]
        here = np.flatnonzero(self.alive[0])
        assert len(set(after[here].tolist())) == len(here), "two robots in one cell"
        crossings = (after[here, None] == before[None, here]) & (before[here, None] == after[None, here])
        assert not (crossings & (before[here] != after[here])[:, None]).any(), "two robots changed places"
        self.cells[0] = after
        self.steps += 1
        self.waiting += 1
        reached: Int = (after == self.goal_cells[self.goals[0]]) & self.alive[0]
        self.waiting[reached] = 0
        return reached


def recursive_pibt(world: World, tie: dict[tuple[int, int], int]) -> list[int]:
    """Algorithm 1 of the paper, word by word, with a given order among equal cells: cells after the step."""
    at = world.cells[0].tolist()
    robot_at = {cell: robot for robot, cell in enumerate(at)}
    after: dict[int, int] = {}

    def pibt(robot: int) -> bool:
        here = at[robot]
        moves = [0] + [move for move in range(1, 5) if world.neighbours[here, move] != here]
        distance = world.distance[world.goals[0, robot]]

        def worth(move: int) -> tuple[int, bool, int, int]:
            cell = int(world.neighbours[here, move])
            return int(distance[cell]), robot_at.get(cell, robot) != robot, tie[robot, move], move

        for move in sorted(moves, key=worth):
            cell = int(world.neighbours[here, move])
            if cell in after.values():
                continue
            other = robot_at.get(cell)
            if other is not None and other != robot and after.get(other) == here:
                continue
            after[robot] = cell
            if other is not None and other != robot and other not in after and not pibt(other):
                continue
            return True
        after[robot] = here
        return False

    for robot in np.argsort(-world.priority[0]).tolist():
        if robot not in after:
            pibt(robot)
    return [after[robot] for robot in range(len(at))]


def ties(world: World, seed: int) -> dict[tuple[int, int], int]:
    """The order among equal cells that the kernel uses: bytes of a SplitMix64 hash."""
    mask = 2**64 - 1

    def mix(value: int) -> int:
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
        return value ^ (value >> 31)

    key = mix(seed ^ mix(mix(mix(int(world.steps[0])))))
    return {
        (robot, move): mix(key ^ robot) >> (8 * move) & 0xFF for robot in range(world.num_robots) for move in range(5)
    }


@st.composite
def crowded_worlds(draw: st.DrawFn) -> World:
    height, width = draw(st.integers(2, 5)), draw(st.integers(2, 5))
    rows = draw(st.lists(st.text("...#", min_size=width, max_size=width), min_size=height, max_size=height))
    rows[0] = ".." + rows[0][2:]
    layout = Layout.from_drawing(rows, 1.0, "test")
    free = np.flatnonzero(largest_component(~layout.blocked)).tolist()
    order = draw(st.permutations(free))
    world = World(layout, order[: draw(st.integers(1, len(free)))], free)
    for robot in range(world.num_robots):
        world.set_goal(robot, draw(st.sampled_from(free)))
    world.waiting[:] = draw(st.lists(st.integers(0, 5), min_size=world.num_robots, max_size=world.num_robots))
    world.steps[0] = draw(st.integers(0, 1000))
    return world


@settings(max_examples=300, deadline=None)
@given(crowded_worlds(), st.integers(0, 2**64 - 1))
def test_plan_moves_equals_the_recursion_of_the_paper(world: World, seed: int) -> None:
    planned = world.neighbours[world.cells[0], world.plan(seed)].tolist()
    assert planned == recursive_pibt(world, ties(world, seed))


@settings(max_examples=50, deadline=None)
@given(crowded_worlds())
def test_plan_moves_never_makes_robots_collide_however_crowded_the_floor_is(world: World) -> None:
    for _ in range(10):
        world.step()


def _drawn(rows: list[str]) -> tuple[Layout, dict[str, int]]:
    """A floor with robots 0..9 at lower case letters a, b, ... and their goals at A, B, ..."""
    joined = "".join(rows)
    places = {mark: joined.index(mark) for mark in "abcdABCD" if mark in joined}
    return Layout.from_drawing(["".join("#" if c == "#" else "." for c in row) for row in rows], 1.0, "test"), places


@pytest.mark.parametrize(
    "rows",
    [
        # Two robots have to pass each other in a corridor with one bay.
        ["###.###", "aB...bA"],
        # A loop that is full but for one cell.
        ["aBC", "b#.", "cAD"],
        # Two loops that share an aisle.
        ["a.B.b", ".#.#.", "..A.."],
    ],
)
def test_plan_moves_brings_every_robot_to_its_goal_when_they_are_in_each_others_way(rows: list[str]) -> None:
    layout, places = _drawn(rows)
    robots = [mark for mark in "abcd" if mark in places]
    world = World(layout, [places[mark] for mark in robots], [places[mark.upper()] for mark in robots])
    for robot, mark in enumerate(robots):
        world.set_goal(robot, places[mark.upper()])
    visited = np.zeros(len(robots), np.bool_)
    for _ in range(100):
        visited |= world.step()
        if visited.all():
            return
    pytest.fail(f"robots {np.flatnonzero(~visited).tolist()} never reached their goals")


def test_plan_moves_turns_a_full_ring() -> None:
    layout = Layout.from_drawing(["..", ".."], 1.0, "test")
    world = World(layout, [0, 1, 3, 2], [0, 1, 2, 3])
    for robot, goal in enumerate([1, 3, 2, 0]):
        world.set_goal(robot, goal)
    assert world.step().all()


def test_plan_moves_pushes_a_robot_that_has_no_goal_out_of_the_way() -> None:
    layout = Layout.from_drawing(["....", "####"], 1.0, "test")
    world = World(layout, [0, 1], [2])
    world.goals[0, 1] = -1
    world.waiting[0] = 1
    world.step()
    assert world.cells[0].tolist() == [1, 2]


def test_plan_moves_leaves_a_robot_without_a_goal_where_it_is_when_nobody_comes() -> None:
    layout = Layout.from_drawing(["....", "...."], 1.0, "test")
    world = World(layout, [5], [0])
    world.goals[0, 0] = -1
    assert world.plan().tolist() == [0]


def test_plan_moves_never_drives_into_a_robot_that_cannot_move() -> None:
    layout = Layout.from_drawing(["...", "..."], 1.0, "test")
    world = World(layout, [0, 1, 3], [2, 5])
    world.movable[0, 1] = False
    world.set_goal(2, 5)
    for _ in range(4):
        world.step()
    assert world.cells[0].tolist() == [0, 1, 5]


def test_plan_moves_ignores_robots_that_are_off_the_floor() -> None:
    layout = Layout.from_drawing(["..."], 1.0, "test")
    world = World(layout, [0, 1], [2])
    world.alive[0, 1] = False
    world.step()
    assert world.cells[0, 0] == 1
    assert world.plan()[1] == 0


def _lifelong(layout: Layout, num_robots: int, steps: int) -> float:
    """Goals reached per step; the next goal of a robot is uniform over a sample of the free cells.

    Dead ends, where PIBT can get stuck, are left out.
    """
    rng = np.random.default_rng(0)
    free = np.flatnonzero(without_dead_ends(largest_component(~layout.blocked)))
    goals = rng.choice(free, min(len(free), 400), replace=False)
    world = World(layout, rng.choice(free, num_robots, replace=False).tolist(), goals.tolist())
    world.goals[0] = rng.integers(len(goals), size=num_robots)
    total = 0
    for _ in range(steps):
        reached = world.step()
        world.goals[0, reached] = rng.integers(len(goals), size=int(reached.sum()))
        total += int(reached.sum())
    return total / steps


@pytest.mark.parametrize(
    ("name", "num_robots", "expected"),
    [
        # Goals per step of an independent implementation on the same maps, one seed each.
        ("warehouse-10-20-10-2-1.map", 100, 1.00),
        ("random-32-32-10.map", 100, 4.15),
        ("random-32-32-10.map", 200, 7.50),
    ],
)
def test_plan_moves_reaches_the_throughput_known_for_real_maps(
    public_maps: Path, name: str, num_robots: int, expected: float
) -> None:
    layout = load_layout_file(public_maps / "movingai" / name, 1.0)
    assert _lifelong(layout, num_robots, 500) == pytest.approx(expected, rel=0.1)

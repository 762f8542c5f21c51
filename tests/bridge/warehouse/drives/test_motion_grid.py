"""The conflict rule of the grid: single cases, and a plain oracle on crowded floors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.warehouse.drives.motion_grid import make_grid_scratch, mask_blocked_moves, move_on_grid
from bridge.warehouse.random_streams import draw
from bridge.warehouse.view import DOWN, LEFT, RIGHT, STAY, UP

OPEN = """
S....
.....
....E
"""
RACKS = """
S..#....
...#....
.......E
P.......
"""
KEYS = np.array([11], np.uint64)


def _move(scene: Any, moves: list[int], step: int = 0, despawn: bool = False) -> list[int]:
    """Cells of the robots after one step of the first environment."""
    num_envs, num_robots = scene.fleet.cell.shape
    actions = np.zeros((num_envs, num_robots), np.int32)
    actions[0] = moves
    scratch = make_grid_scratch(scene.layout.blocked.size, num_robots, scene.layout.cell_size_m)
    steps = np.full(num_envs, step, np.int32)
    keys = np.resize(KEYS, num_envs)
    move_on_grid(scene.floor, scene.fleet, scene.pose, scene.outcome, scratch, actions, keys, steps, despawn, 2.0)
    assert (scratch.before == -1).all()
    assert (scratch.claim == -1).all()
    assert (scratch.count_in == 0).all()
    return list(scene.fleet.cell[0].tolist())


def _scene(make_scene: Any, cells: list[int], drawing: str = OPEN) -> Any:
    scene = make_scene(drawing, len(cells))
    for robot, cell in enumerate(cells):
        scene.place(0, robot, cell)
    return scene


def test_move_on_grid_goes_up_right_down_and_left(make_scene: Any) -> None:
    for move, cell in ((STAY, 7), (UP, 2), (RIGHT, 8), (DOWN, 12), (LEFT, 6)):
        scene = _scene(make_scene, [7])
        assert _move(scene, [move]) == [cell]
        assert scene.outcome.moved_m[0, 0] == (0.0 if move == STAY else 1.0)


def test_move_on_grid_keeps_place_and_velocity_in_metres(make_scene: Any) -> None:
    scene = make_scene(OPEN, 1, cell_size_m=1.5)
    scene.place(0, 0, 7)
    _move(scene, [UP])
    assert (scene.pose.x[0, 0], scene.pose.y[0, 0]) == (3.75, 3.75)
    assert (scene.pose.vx[0, 0], scene.pose.vy[0, 0]) == (0.0, 0.75)


def test_move_on_grid_refuses_moves_into_racks_and_walls(make_scene: Any) -> None:
    scene = _scene(make_scene, [0, 6], "S....\n..#..\n....E")
    assert _move(scene, [UP, RIGHT]) == [0, 6]
    assert scene.outcome.refused[0].tolist() == [True, True]
    assert scene.outcome.rack_contacts[0].tolist() == [0, 0]


def test_move_on_grid_refuses_swaps(make_scene: Any) -> None:
    scene = _scene(make_scene, [6, 7])
    assert _move(scene, [RIGHT, LEFT]) == [6, 7]
    assert scene.outcome.refused[0].tolist() == [True, True]
    assert scene.outcome.robot_contacts[0].tolist() == [0, 0]


def test_move_on_grid_moves_a_chain_as_a_whole_when_its_head_is_free(make_scene: Any) -> None:
    # Slots in an order that a single pass from head to tail or back would get wrong.
    scene = _scene(make_scene, [6, 8, 5, 7])
    assert _move(scene, [RIGHT, RIGHT, RIGHT, RIGHT]) == [7, 9, 6, 8]
    assert not scene.outcome.refused.any()


def test_move_on_grid_refuses_a_whole_chain_when_its_head_stands(make_scene: Any) -> None:
    scene = _scene(make_scene, [6, 8, 5, 7])
    assert _move(scene, [RIGHT, STAY, RIGHT, RIGHT]) == [6, 8, 5, 7]
    assert scene.outcome.refused[0].tolist() == [True, False, True, True]


def test_move_on_grid_turns_a_cycle_of_four(make_scene: Any) -> None:
    scene = _scene(make_scene, [0, 1, 6, 5])
    assert _move(scene, [RIGHT, DOWN, LEFT, UP]) == [1, 6, 5, 0]


def test_move_on_grid_lets_one_of_several_win_a_cell_and_not_always_the_same(make_scene: Any) -> None:
    winners = set()
    for step in range(40):
        scene = _scene(make_scene, [6, 8, 2])
        cells = _move(scene, [RIGHT, LEFT, DOWN], step)
        assert cells.count(7) == 1
        winners.add(cells.index(7))
        assert scene.outcome.refused.sum() == 2
    assert winners == {0, 1, 2}


def test_move_on_grid_gives_no_way_to_a_loser_whose_rival_is_blocked_by_a_swap(make_scene: Any) -> None:
    # 0 and 1 want to change places; 2 wants the cell of 1, which 1 does not leave.
    scene = _scene(make_scene, [6, 7, 8])
    assert _move(scene, [RIGHT, LEFT, LEFT]) == [6, 7, 8]


def test_move_on_grid_holds_robots_with_an_empty_battery_and_those_behind_them(make_scene: Any) -> None:
    scene = _scene(make_scene, [6, 7])
    scene.fleet.charge[0, 1] = 0.0
    assert _move(scene, [RIGHT, RIGHT]) == [6, 7]
    assert scene.outcome.refused[0].tolist() == [True, False]


def test_move_on_grid_ignores_robots_that_are_not_on_the_floor(make_scene: Any) -> None:
    scene = _scene(make_scene, [6, 7])
    scene.fleet.alive[0, 1] = False
    assert _move(scene, [RIGHT, STAY]) == [7, 7]
    assert scene.outcome.robot_contacts[0].tolist() == [0, 0]


def test_move_on_grid_despawn_takes_all_that_meet_in_a_cell(make_scene: Any) -> None:
    scene = _scene(make_scene, [6, 8, 2, 0])
    _move(scene, [RIGHT, LEFT, DOWN, RIGHT], despawn=True)
    assert scene.outcome.leaving[0].tolist() == [True, True, True, False]
    assert scene.outcome.robot_contacts[0].tolist() == [2, 2, 2, 0]
    assert scene.fleet.cell[0, 3] == 1


def test_move_on_grid_despawn_takes_both_robots_of_a_swap(make_scene: Any) -> None:
    scene = _scene(make_scene, [6, 7])
    _move(scene, [RIGHT, LEFT], despawn=True)
    assert scene.outcome.leaving[0].tolist() == [True, True]
    assert scene.outcome.robot_contacts[0].tolist() == [1, 1]


def test_move_on_grid_despawn_takes_a_robot_that_hits_a_rack_and_one_that_drives_into_it(make_scene: Any) -> None:
    scene = _scene(make_scene, [0, 1, 14])
    _move(scene, [LEFT, LEFT, UP], despawn=True)
    assert scene.outcome.leaving[0].tolist() == [True, True, False]
    assert scene.outcome.rack_contacts[0].tolist() == [1, 0, 0]
    assert scene.outcome.robot_contacts[0].tolist() == [1, 1, 0]
    assert not scene.outcome.refused.any()


def test_move_on_grid_despawn_lets_robots_follow_each_other(make_scene: Any) -> None:
    scene = _scene(make_scene, [6, 7])
    assert _move(scene, [RIGHT, RIGHT], despawn=True) == [7, 8]
    assert not scene.outcome.leaving.any()


def _settled(moves: np.ndarray, cells: list[int], wishes: list[int], first: int) -> list[int]:
    """The rule in plain words: refuse until nothing more has to be refused."""
    n = len(cells)
    target = {r: int(moves[cells[r], wishes[r]]) for r in range(n)}
    goes = {r for r in range(n) if target[r] != cells[r]}
    at = {cell: r for r, cell in enumerate(cells)}
    swapping = {r for r in goes if target[r] in at and target[at[target[r]]] == cells[r]}
    goes -= swapping
    won: set[int] = set()
    for r in [*range(first, n), *range(first)]:
        if r in goes and target[r] in won:
            goes.remove(r)
        elif r in goes:
            won.add(target[r])
    while True:
        stuck = {r for r in goes if target[r] in at and at[target[r]] not in goes}
        if not stuck:
            return [target[r] if r in goes else cells[r] for r in range(n)]
        goes -= stuck


@pytest.mark.parametrize("num_robots", [3, 8, 11])
def test_move_on_grid_agrees_with_the_rule_written_plainly_on_crowded_floors(make_scene: Any, num_robots: int) -> None:
    drawing = "S..#\n....\n.#..\n...E"
    rng = np.random.default_rng(num_robots)
    scene = make_scene(drawing, num_robots)
    free = np.flatnonzero(~scene.layout.blocked.ravel())
    for step in range(400):
        cells = rng.choice(free, num_robots, replace=False).tolist()
        for robot, cell in enumerate(cells):
            scene.place(0, robot, cell)
        wishes = rng.integers(0, 5, num_robots).tolist()
        first = int(draw(KEYS[0], step)) % num_robots
        after = _move(scene, wishes, step)
        assert after == _settled(scene.floor.moves, cells, wishes, first)
        assert len(set(after)) == num_robots
        assert not scene.outcome.robot_contacts.any()


def test_mask_blocked_moves_forbids_racks_and_walls_and_never_stay(make_scene: Any) -> None:
    scene = make_scene(RACKS, 2)
    scene.place(0, 0, 2)
    mask = np.zeros((1, 2, 5), bool)
    mask_blocked_moves(scene.floor, scene.fleet, 0, mask)
    assert mask[0, 0, [STAY, UP, RIGHT, LEFT]].tolist() == [True, False, False, True]
    assert mask[0, 1].all()

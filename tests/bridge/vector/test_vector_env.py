"""Serial and asynchronous vector environments: same results, defined failures, nothing left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from bridge.errors import ActionError, CallOrderError, SpecMismatchError, WorkerDiedError, WorkerTimeoutError
from bridge.policy import RandomPolicy
from bridge.roster import RosterArrays, array_shapes
from bridge.scenario import load_scenario
from bridge.vector import AsyncVectorEnv, SerialVectorEnv, VectorEnv, VectorState

WORLDS = Path(__file__).parents[1] / "worlds"
RAISE, HANG, DIE = 3, 4, 5


@pytest.fixture
def write_scenario(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(WORLDS))

    def write(**kwargs):
        path = tmp_path / "tiny.yaml"
        path.write_text(
            "schema: 1\nworld: pettingzoo\npettingzoo:\n  factory: tiny_fleet:TinyFleet\n"
            f"  kwargs: {{{', '.join(f'{k}: {str(v).lower()}' for k, v in kwargs.items())}}}\n"
        )
        return load_scenario(path)

    return write


@pytest.fixture(autouse=True)
def nothing_left_behind():
    shared = set(Path("/dev/shm").iterdir())
    yield
    children = [c for c in psutil.Process().children(recursive=True) if "resource_tracker" not in " ".join(c.cmdline())]
    assert children == []
    assert set(Path("/dev/shm").iterdir()) <= shared


def play(env, num_steps, seed=7):
    """Every array after every step, stacked; the policy's random stream is the same for all environments."""
    policy = RandomPolicy(env.spec, seed)
    history = []
    env.reset(seed)
    for step in range(num_steps):
        history.append(snapshot(env.arrays))
        if step == num_steps // 2:
            mask = np.arange(env.num_envs) % 2 == 0
            env.reset(env_mask=mask)
        policy.act(env.arrays)
        env.step()
    return [*history, snapshot(env.arrays)]


def snapshot(arrays: RosterArrays):
    flat = {f"{name}/{key}": value.copy() for name, role in arrays.roles.items() for key, value in vars(role).items()}
    return flat | {key: value.copy() for key, value in vars(arrays).items() if key != "roles"}


@pytest.mark.parametrize("respawn", [False, True])
def test_async_env_equals_serial_bit_for_bit_for_any_number_of_workers(write_scenario, respawn):
    require_equal_for_any_number_of_workers(write_scenario(respawn=respawn), "porter")


@pytest.mark.parametrize(("name", "workers"), [("warehouse_small_despawn", (1, 2, 4)), ("warehouse_drive", (2,))])
def test_async_env_equals_serial_bit_for_bit_when_the_world_is_a_warehouse(name, workers):
    scenario = load_scenario(name)
    short = replace(scenario, config=scenario.config.model_copy(update={"episode_steps": 12}))
    require_equal_for_any_number_of_workers(short, workers=workers)


def require_equal_for_any_number_of_workers(scenario, despawning_role=None, workers=(1, 2, 4)):
    with SerialVectorEnv(scenario, 5) as serial:
        expected = play(serial, 40)
    assert sum(step["episode_over"].sum() for step in expected) >= 10
    assert despawning_role is None or any(step[f"{despawning_role}/terminated"].any() for step in expected)
    for num_workers in workers:
        with AsyncVectorEnv(scenario, 5, num_workers) as env:
            got = play(env, 40)
        for step, (mine, its) in enumerate(zip(expected, got, strict=True)):
            for key in mine:
                np.testing.assert_array_equal(its[key], mine[key], err_msg=f"{key}, step {step}, {num_workers} workers")


def test_vector_envs_are_vector_envs_when_checked_at_run_time(write_scenario):
    scenario = write_scenario()
    with SerialVectorEnv(scenario, 2) as serial, AsyncVectorEnv(scenario, 2, 1) as parallel:
        assert isinstance(serial, VectorEnv)
        assert isinstance(parallel, VectorEnv)
        assert serial.spec == parallel.spec
        assert serial.num_envs == parallel.num_envs == 2


def test_async_env_holds_all_arrays_in_shared_memory_when_made(write_scenario):
    with AsyncVectorEnv(write_scenario(), 3, 2) as env:
        shapes = array_shapes(env.spec, 3)
        arrays = snapshot(env.arrays)
        assert {k: (a.shape, a.dtype) for k, a in arrays.items()} == shapes
        for array in [env.arrays.state, *vars(env.arrays.roles["porter"]).values()]:
            assert array.ctypes.data % 64 == 0


def test_async_env_uses_the_scenario_in_memory_when_the_file_has_changed(write_scenario):
    scenario = write_scenario(num_porters=2)
    scenario.path.write_text("schema: 1\nworld: nonsense\n")
    with AsyncVectorEnv(scenario, 2, 2) as env:
        env.reset(1)
        assert env.spec.role("porter").num_slots == 2


@pytest.mark.parametrize("make", [SerialVectorEnv, lambda s, n: AsyncVectorEnv(s, n, 1)], ids=["serial", "async"])
def test_vector_env_refuses_calls_in_the_wrong_order(write_scenario, make):
    env = make(write_scenario(), 2)
    with pytest.raises(CallOrderError, match=r"step_async: expected .*'ready for a step', got 'not reset yet'"):
        env.step()
    with pytest.raises(CallOrderError, match=r"reset: expected the first reset to seed all environments, got no seed"):
        env.reset()
    with pytest.raises(CallOrderError, match=r"reset: expected the first reset to seed .* got an env_mask"):
        env.reset(1, np.array([True, False]))
    env.reset(1)
    with pytest.raises(CallOrderError, match=r"step_wait: expected .* 'waiting for step_wait', got 'ready for a step'"):
        env.step_wait()
    env.step_async()
    with pytest.raises(CallOrderError, match=r"step_async: expected .* got 'waiting for step_wait'"):
        env.step_async()
    with pytest.raises(CallOrderError, match=r"reset: expected .* got 'waiting for step_wait'"):
        env.reset(1)
    env.step_wait()
    env.close()
    env.close()
    assert env.state is VectorState.CLOSED
    with pytest.raises(CallOrderError, match=r"step_async: expected .* got 'closed'"):
        env.step()
    with pytest.raises(CallOrderError, match=r"reset: expected .* got 'closed'"):
        env.reset(1)


def test_async_env_closes_when_a_step_is_under_way(write_scenario):
    env = AsyncVectorEnv(write_scenario(), 4, 2)
    env.reset(1)
    env.step_async()
    env.close()
    assert env.state is VectorState.CLOSED


def test_async_env_refuses_more_workers_than_environments(write_scenario):
    with pytest.raises(SpecMismatchError, match=r"num_workers <= num_envs, got num_workers=3 and num_envs=2"):
        AsyncVectorEnv(write_scenario(), 2, 3)


def act(env, envs, action):
    """Let the first porter of some environments do harm."""
    for role in env.arrays.roles.values():
        role.discrete_actions[:] = 1
    env.arrays.roles["porter"].discrete_actions[envs, 0] = action


def assert_failed(env):
    assert env.state is VectorState.FAILED
    with pytest.raises(CallOrderError, match="got 'failed'"):
        env.step()
    with pytest.raises(CallOrderError, match="got 'failed'"):
        env.reset(1)
    assert env.worker_pids == ()
    env.close()
    env.close()


def test_async_env_shows_the_traceback_when_a_worker_raises(write_scenario):
    env = AsyncVectorEnv(write_scenario(harm=True), 4, 2)
    env.reset(1)
    act(env, 3, RAISE)
    with pytest.raises(
        WorkerDiedError, match=r"worker 1 \(envs 2-3\) raised ZeroDivisionError during 'step'"
    ) as caught:
        env.step()
    assert "porter_0 divided by zero" in str(caught.value)
    assert "tiny_fleet.py" in str(caught.value)
    assert "in _do_harm" in str(caught.value)
    assert_failed(env)


def test_async_env_names_worker_exit_code_and_memory_when_a_worker_is_killed(write_scenario):
    env = AsyncVectorEnv(write_scenario(harm=True), 4, 2)
    env.reset(1)
    act(env, 0, DIE)
    begin = time.monotonic()
    message = r"worker 0 \(envs 0-1\) died with exit code -9 during 'step'\. It was killed, most likely for memory"
    with pytest.raises(WorkerDiedError, match=message):
        env.step()
    assert time.monotonic() - begin < 10
    assert_failed(env)


def test_async_env_reports_a_worker_when_it_was_killed_between_steps(write_scenario):
    env = AsyncVectorEnv(write_scenario(), 3, 3)
    env.reset(1)
    os.kill(env.worker_pids[2], signal.SIGKILL)
    os.waitid(os.P_PID, env.worker_pids[2], os.WEXITED | os.WNOWAIT)
    act(env, 0, 1)
    with pytest.raises(WorkerDiedError, match=r"worker 2 \(env 2\) died with exit code -9 during 'step'"):
        env.step()
    assert_failed(env)


def test_async_env_names_worker_and_command_when_a_step_takes_too_long(write_scenario):
    env = AsyncVectorEnv(write_scenario(harm=True), 2, 2, step_timeout_s=0.5)
    env.reset(1)
    act(env, 1, HANG)
    with pytest.raises(WorkerTimeoutError, match=r"step: expected an answer of worker 1 \(env 1\) within 0.5 s"):
        env.step()
    assert_failed(env)


def test_async_env_raises_the_worlds_own_error_when_an_action_is_wrong(write_scenario):
    env = AsyncVectorEnv(write_scenario(), 4, 2)
    env.reset(1)
    act(env, 2, RAISE)
    with pytest.raises(ActionError, match=r"'porter_0' of environment 2: .*masked 3.*\(worker 1 \(envs 2-3\) during"):
        env.step()
    assert_failed(env)


def test_serial_env_is_failed_when_the_world_raises(write_scenario):
    env = SerialVectorEnv(write_scenario(harm=True), 2)
    env.reset(1)
    act(env, 1, RAISE)
    with pytest.raises(ZeroDivisionError):
        env.step()
    assert env.state is VectorState.FAILED
    with pytest.raises(CallOrderError, match="got 'failed'"):
        env.step()
    env.close()


def test_async_env_ends_its_workers_when_it_is_collected(write_scenario):
    env = AsyncVectorEnv(write_scenario(), 2, 2)
    workers = [psutil.Process(pid) for pid in env.worker_pids]
    del env
    assert psutil.wait_procs(workers, timeout=10)[1] == []


def test_async_env_workers_have_one_thread_for_numerics_and_leave_the_parents_settings(write_scenario, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    with AsyncVectorEnv(write_scenario(), 1, 1) as env:
        environment = psutil.Process(env.worker_pids[0]).environ()
    assert environment["OMP_NUM_THREADS"] == environment["NUMBA_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "NUMBA_NUM_THREADS" not in os.environ


SCRIPT = """
import os, sys, time
from bridge.scenario import load_scenario
from bridge.vector import AsyncVectorEnv

if __name__ == "__main__":
    sys.path.insert(0, {worlds!r})
    env = AsyncVectorEnv(load_scenario({scenario!r}), 2, 2)
    env.reset(1)
    for role in env.arrays.roles.values():
        role.discrete_actions[:] = 1
    print(*env.worker_pids, flush=True)
    {body}
"""


@pytest.fixture
def run_script(write_scenario, tmp_path):
    """Start a program that owns two workers, in a process group of its own; gives it and its workers."""
    programs = []

    def run(body):
        scenario = write_scenario(harm=True)
        script = tmp_path / "program.py"
        script.write_text(SCRIPT.format(worlds=str(WORLDS), scenario=str(scenario.path), body=textwrap.dedent(body)))
        program = subprocess.Popen(
            [sys.executable, str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        programs.append(program)
        workers = [psutil.Process(int(pid)) for pid in program.stdout.readline().split()]
        assert len(workers) == 2
        return program, workers

    yield run
    for program in programs:
        if program.poll() is None:
            program.kill()
        program.communicate()


def assert_ended(workers):
    assert psutil.wait_procs(workers, timeout=15)[1] == []


STEP_FOREVER = "while True: env.step() if not env.arrays.episode_over.any() else env.reset(1)"


def test_async_env_leaves_one_traceback_and_no_process_when_ctrl_c_reaches_the_group(run_script):
    program, workers = run_script(STEP_FOREVER)
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=30)
    assert program.returncode != 0
    assert errors.count("KeyboardInterrupt") == 1, errors
    assert errors.count("Traceback") == 1, errors
    assert_ended(workers)


def test_async_env_leaves_no_process_when_its_program_raises(run_script):
    program, workers = run_script("env.step(); raise LookupError('lost')")
    _, errors = program.communicate(timeout=30)
    assert program.returncode == 1
    assert "LookupError: lost" in errors
    assert_ended(workers)


@pytest.mark.parametrize(
    "body",
    [STEP_FOREVER, "env.arrays.roles['porter'].discrete_actions[:] = 4; env.step()"],
    ids=["stepping", "hanging"],
)
def test_async_env_workers_end_when_their_parent_is_killed(run_script, body):
    program, workers = run_script(body)
    program.kill()
    program.communicate(timeout=30)
    assert_ended(workers)

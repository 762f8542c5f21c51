"""The training loop: collect, learn, log, save, until the end or a stop request."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from bridge.errors import CheckpointError, SpecMismatchError, WorldDiedError, WorldTimeoutError
from bridge.scenario import Scenario
from bridge.scenario_listening import all_listen_on
from bridge.scenario_logs import keep_logs
from bridge.scenario_mix import ScenarioMix
from bridge.specs import WorldSpec
from bridge.vector import AsyncVectorEnv, SerialVectorEnv, VectorEnv
from trainers.algorithms import make_learner
from trainers.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from trainers.config import TrainConfig
from trainers.curriculum import Curriculum
from trainers.episode_statistics import EpisodeStatistics, EpisodeSummary
from trainers.interrupt import StopRequest
from trainers.metrics_log import MetricsLog
from trainers.progress import ProgressListener, SilentProgress, TrainProgress, TrainResult
from trainers.rollout import Rollout, RolloutCollector
from trainers.runs import RunFolder, environment_seed
from trainers.scenario_config import training_scenarios

__all__ = ["train"]

_SPEED_WINDOW = 20
"""Updates over which speed is measured."""


def train(
    scenario: Scenario,
    config: TrainConfig,
    run_dir: Path,
    *,
    resume: bool = False,
    listener: ProgressListener | None = None,
    listen: str | None = None,
) -> TrainResult:
    """Train a policy for every role of a scenario.

    Ctrl-C (or SIGTERM) ends training at the next environment step, saves a checkpoint and returns; a
    second one raises at once. When the world dies or hangs, a checkpoint is saved before the error is raised.

    A resumed run has the networks, optimizers, normalisers, counters and random states of the saved
    one, but cannot have its half-finished episodes: it begins new ones, keyed by the number of the update.
    With ``restart_episodes_at_checkpoints`` the uninterrupted run does the same at its checkpoints, and both
    are equal bit for bit (on the same machine, with the same number of threads).

    Args:
        scenario: What to train on.
        config: How to train.
        run_dir: New run folder, or with ``resume`` the folder of the run to continue.
        resume: Continue from the latest checkpoint.
        listener: Hears of progress; nobody by default.
        listen: Address on which the worlds listen for players in this session, in place of the scenarios'.

    Raises:
        ScenarioError: ``listen`` does not fit a world that is played.
        CheckpointError: The folder holds a run already, or with ``resume`` none that fits.
        SpecMismatchError: With ``resume``, the scenario's roles are not those of the run.
        TrainingError: Learning cannot go on.
        WorldDiedError: A process that runs the world has ended.
        WorldTimeoutError: A process that runs the world did not answer in time.
    """
    run = RunFolder(run_dir)
    listener = SilentProgress() if listener is None else listener
    if not resume:
        run.require_new()
    checkpoint = _resumed(run, config) if resume else None
    result = None
    played = all_listen_on(training_scenarios(scenario, config.scenarios, config.curriculum), listen)
    played = keep_logs(played, run.logs_folder)
    with _threads(config), _open_vector_env(played, config) as world, StopRequest() as stop:
        if checkpoint is None:
            run.create(scenario, config)
        else:
            _require_same_world(checkpoint.spec, world.spec, run_dir)
            run.write_config(config)
        listener.on_start(run_dir, config, world.spec)
        try:
            with MetricsLog(run, None if checkpoint is None else checkpoint.update) as log:
                result = _Training(world, played, config, run, listener, log, checkpoint).run(stop)
        finally:
            listener.on_end(result)
    return result


class _Training:
    """One session of a run."""

    def __init__(
        self,
        world: VectorEnv,
        played: Scenario | ScenarioMix,
        config: TrainConfig,
        run: RunFolder,
        listener: ProgressListener,
        log: MetricsLog,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._world = world
        self._config = config
        self._run = run
        self._listener = listener
        self._log = log
        self._learner = make_learner(world.spec, config)
        self._scenario_names = played.names if isinstance(played, ScenarioMix) else ()
        self._curriculum = Curriculum(config.curriculum, world.spec) if config.curriculum else None
        self._statistics = EpisodeStatistics(
            world.spec,
            world.num_envs,
            scenarios=self._scenario_names,
            on_episode=None if self._curriculum is None else self._curriculum.record,
        )
        self._collector = RolloutCollector(
            world, self._learner.policy, config.rollout_steps, self._statistics, debug=config.debug
        )
        self._update = self._env_steps = self._decisions = 0
        self._best_return: float | None = None
        self._earlier_seconds = 0.0
        if checkpoint is not None:
            self._restore(checkpoint)
        self._started = time.monotonic()
        self._recent = deque([(self._started, self._env_steps, self._decisions)], maxlen=_SPEED_WINDOW + 1)

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._learner.load_state(checkpoint.learner)
        self._statistics.load_state(checkpoint.episodes)
        self._update = checkpoint.update
        self._env_steps = checkpoint.env_steps
        self._decisions = checkpoint.decisions
        self._best_return = checkpoint.best_return
        if self._curriculum is not None and checkpoint.curriculum is not None:
            self._curriculum.load_state(checkpoint.curriculum)
            self._world.set_scenario_weights(self._curriculum.weights)
        self._earlier_seconds = checkpoint.seconds

    def run(self, stop: StopRequest) -> TrainResult:
        """Updates until the configured number is reached or somebody asks to stop."""
        self._restart_episodes()
        saved = -1
        interrupted = False
        while self._update < self._config.num_updates:
            rollout = self._collect(stop)
            if rollout is None:
                interrupted = True
                break
            self._learn(rollout)
            if self._update % self._config.checkpoint_every == 0:
                self._save()
                saved = self._update
                if self._config.restart_episodes_at_checkpoints:
                    self._restart_episodes()
        if saved != self._update:
            self._save()
        return TrainResult(
            run_dir=self._run.path,
            update=self._update,
            env_steps=self._env_steps,
            seconds=self._seconds(),
            interrupted=interrupted,
            episodes=self._statistics.summary(),
        )

    def _collect(self, stop: StopRequest) -> Rollout | None:
        try:
            return self._collector.collect(stop)
        except (WorldDiedError, WorldTimeoutError):
            # The learner is whole: what was learnt so far must not be lost with the world.
            self._save()
            self._listener.on_message(f"saved {self._run.checkpoint('latest')}; the run can be resumed.")
            raise

    def _learn(self, rollout: Rollout) -> None:
        metrics = self._learner.update(rollout)
        self._update += 1
        self._env_steps += self._config.env_steps_per_update
        self._decisions += rollout.num_decisions
        self._recent.append((time.monotonic(), self._env_steps, self._decisions))
        (then, old_steps, old_decisions), (now, steps, decisions) = self._recent[0], self._recent[-1]
        elapsed = max(now - then, 1e-9)
        progress = TrainProgress(
            update=self._update,
            num_updates=self._config.num_updates,
            env_steps=steps,
            decisions=decisions,
            seconds=self._seconds(),
            seconds_left=(self._config.num_updates - self._update) * elapsed / (len(self._recent) - 1),
            env_steps_per_s=(steps - old_steps) / elapsed,
            decisions_per_s=(decisions - old_decisions) / elapsed,
            episodes=self._statistics.summary(),
            metrics=metrics if self._curriculum is None else {**metrics, "curriculum/stage": self._curriculum.stage},
        )
        self._log.write(progress)
        self._listener.on_update(progress)
        if self._curriculum is not None:
            self._advance(self._curriculum)

    def _advance(self, curriculum: Curriculum) -> None:
        """Change the stage of the curriculum if it is time to."""
        highest = curriculum.highest
        message = curriculum.advance()
        if message is None:
            return
        if curriculum.highest > highest:
            self._best_return = None  # returns of different stages say nothing about each other
        self._world.set_scenario_weights(curriculum.weights)
        self._listener.on_message(message)

    def _save(self) -> None:
        """Write the latest checkpoint, and the best one if the last episodes went better than ever."""
        summary = self._comparable_episodes()
        better = summary.num_episodes > 0 and (self._best_return is None or summary.return_sum > self._best_return)
        if better:
            self._best_return = summary.return_sum
        checkpoint = Checkpoint(
            spec=self._world.spec,
            config=self._config.model_dump(mode="json"),
            update=self._update,
            env_steps=self._env_steps,
            decisions=self._decisions,
            seconds=self._seconds(),
            best_return=self._best_return,
            learner=self._learner.state(),
            episodes=self._statistics.state(),
            curriculum=None if self._curriculum is None else self._curriculum.state(),
        )
        save_checkpoint(self._run.checkpoint("latest"), checkpoint)
        if better:
            save_checkpoint(self._run.checkpoint("best"), checkpoint)

    def _comparable_episodes(self) -> EpisodeSummary:
        """The last episodes; of a curriculum those on its highest stage, and none while it has fallen back."""
        summary = self._statistics.summary()
        if self._curriculum is None:
            return summary
        name = self._scenario_names[self._curriculum.stage]
        of_stage = summary.scenarios.get(name) if self._curriculum.is_highest else None
        return EpisodeSummary.nothing() if of_stage is None else of_stage

    def _restart_episodes(self) -> None:
        self._world.reset(environment_seed(self._config.seed, self._update))
        self._statistics.restart()

    def _seconds(self) -> float:
        return self._earlier_seconds + time.monotonic() - self._started


def _resumed(run: RunFolder, config: TrainConfig) -> Checkpoint:
    run.require_run()
    run.require_checkpoint()
    checkpoint = load_checkpoint(run.checkpoint("latest"))
    run.require_resumable(config, checkpoint.config)
    if checkpoint.update >= config.num_updates:
        raise CheckpointError(
            f"{run.path}: expected a run of less than {config.num_updates} updates, got one that has made "
            f"{checkpoint.update}. Ask for more, for example --updates {2 * checkpoint.update}."
        )
    return checkpoint


def _open_vector_env(scenario: Scenario | ScenarioMix, config: TrainConfig) -> VectorEnv:
    if config.num_workers == 0:
        return SerialVectorEnv(scenario, config.num_envs)
    return AsyncVectorEnv(scenario, config.num_envs, config.num_workers)


@contextmanager
def _threads(config: TrainConfig) -> Iterator[None]:
    """Torch with the configured number of threads; by default one per core that the workers leave.

    More threads than free cores are worse than one: they wait for each other by spinning.
    """
    before = torch.get_num_threads()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(config.torch_threads or max(1, cores - config.num_workers))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _require_same_world(saved: WorldSpec, found: WorldSpec, run_dir: Path) -> None:
    where = f"resume {run_dir}"
    names = [role.name for role in saved.roles]
    if names != [role.name for role in found.roles]:
        raise SpecMismatchError(
            f"{where}: expected the roles {names}, got {[role.name for role in found.roles]}. "
            "Resume with the scenario of the run."
        )
    for mine, its in zip(saved.roles, found.roles, strict=True):
        mine.require_same_interface(its, where)
        if mine.num_slots != its.num_slots:
            raise SpecMismatchError(
                f"{where}: role {mine.name!r}: expected {mine.num_slots} robots, got {its.num_slots}. "
                "Resume with the scenario of the run."
            )
    if saved.state_size != found.state_size:
        raise SpecMismatchError(
            f"{where}: expected a state of {saved.state_size} values, got {found.state_size}. "
            "Resume with the scenario of the run."
        )

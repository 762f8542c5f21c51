"""MAPPO: proximal policy optimisation with a critic that sees the whole world.

Yu et al. 2022, "The Surprising Effectiveness of PPO in Cooperative Multi-Agent
Games" (arXiv 2103.01955), in the order of its Algorithm 1: values, advantages,
normalised targets, then epochs over minibatches with a clipped policy loss, an
entropy bonus and a clipped Huber value loss. IPPO is the same with
``critic_input: observation``. ``docs/mappo.md`` explains every logged figure
and every deviation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from bridge.errors import TrainingError
from bridge.specs import RoleSpec, WorldSpec
from trainers.advantages import Advantages, LifeHistory, estimate_advantages, normalise_advantages
from trainers.algorithms.mappo_config import MappoConfig
from trainers.critic_views import CriticViews, ViewBuilder
from trainers.learner import Metrics
from trainers.minibatches import RoleBatch, minibatches
from trainers.networks import ActorNetwork, CriticNetwork, NetworkShape
from trainers.normalisation import ValueNormaliser
from trainers.optimizers import load_optimizer_state, optimizer_state, set_learning_rate
from trainers.policy import RoleActor, TorchPolicy
from trainers.rollout import RoleRollout, Rollout

__all__ = ["MappoLearner"]

Float32 = NDArray[np.float32]

_CHUNK = 65_536
"""Robots valued at once: bounds the memory of the pass over a whole rollout."""


@dataclass(frozen=True)
class _Estimates:
    """A role's values and advantages; (T, E, A) float32."""

    outputs: Float32
    values: Float32
    advantages: Advantages


class MappoLearner:
    """Improves one actor and one critic per role; see :class:`trainers.learner.Learner`."""

    def __init__(self, spec: WorldSpec, config: MappoConfig) -> None:
        self._spec = spec
        self._config = config
        self._generator = torch.Generator().manual_seed(config.seed)
        self._num_updates = 0
        reads_state = config.critic_input != "observation"
        self._views = ViewBuilder(spec, reads_state, config.normalise_observations, config.normaliser_clip)
        self._roles = {role.name: _RoleNetworks(role, self._views, config, self._generator) for role in spec.roles}
        actors = {name: networks.actor for name, networks in self._roles.items()}
        self._policy = TorchPolicy(spec, actors, deterministic=False, generator=self._generator)

    @property
    def policy(self) -> TorchPolicy:
        """The policy that collects data, always with the newest parameters."""
        return self._policy

    def update(self, rollout: Rollout) -> Metrics:
        """One update of Algorithm 1; see :meth:`trainers.learner.Learner.update`."""
        if rollout.num_decisions == 0:
            raise TrainingError(
                "mappo: expected a rollout in which some robot is asked for a decision, got none. "
                "Raise rollout_steps, or check that the world asks its robots."
            )
        views = self._views.of_rollout(rollout)
        finals = self._views.of_finals(rollout.final)
        estimates = {
            name: self._estimate(self._roles[name], data, rollout, views, finals)
            for name, data in rollout.roles.items()
        }
        advantages = normalise_advantages(
            {name: estimate.advantages for name, estimate in estimates.items()}, self._config.advantage_normalisation
        )
        metrics: Metrics = {"learning_rate": self._anneal()}
        for name, data in rollout.roles.items():
            if not estimates[name].advantages.valid.any():
                continue  # Nobody of this role finished a decision: nothing to learn from, nothing to normalise.
            batch = self._batch(self._roles[name], data, views, estimates[name], advantages[name])
            role_metrics = self._learn(self._roles[name], batch)
            role_metrics["explained_variance"] = _explained_variance(estimates[name])
            metrics.update({f"{name}/{figure}": value for figure, value in role_metrics.items()})
        # Only now: what acted and what learnt saw the same statistics.
        self._views.update_statistics(rollout)
        self._num_updates += 1
        return metrics

    def _estimate(
        self, networks: _RoleNetworks, data: RoleRollout, rollout: Rollout, views: CriticViews, finals: CriticViews
    ) -> _Estimates:
        """Values of everything that was seen, and advantages of everything that was decided."""
        steps, num_envs, slots = data.rewards.shape
        outputs = networks.outputs(views).reshape(steps + 1, num_envs, slots)
        final_values = np.zeros(data.rewards.shape, np.float32)
        if len(rollout.final.steps):
            final_values[rollout.final.steps, rollout.final.envs] = networks.returns.denormalise(
                networks.outputs(finals)
            )
        values = networks.returns.denormalise(outputs)
        advantages = estimate_advantages(
            LifeHistory(
                rewards=data.rewards,
                terminated=data.terminated,
                truncated=data.truncated,
                agent_mask=data.agent_mask,
                decision_mask=data.decision_mask,
                values=values,
                final_values=final_values,
            ),
            self._config.gamma,
            self._config.gae_lambda,
        )
        return _Estimates(outputs[:-1], values[:-1], advantages)

    def _batch(
        self,
        networks: _RoleNetworks,
        data: RoleRollout,
        views: CriticViews,
        estimates: _Estimates,
        advantages: Float32,
    ) -> RoleBatch:
        """The data of one role as rows (T, E, A, ...) -> (T*E, A, ...), with constants where nothing was decided."""
        returns, valid = estimates.advantages.returns, estimates.advantages.valid
        old_mean, old_std, had_scale = networks.returns.mean, networks.returns.std, networks.returns.is_known
        networks.returns.update(returns[valid])
        old_outputs = estimates.outputs
        # Before the first statistics the outputs mean nothing: there is nothing to preserve.
        if self._config.value_normalisation == "popart" and had_scale:
            networks.critic.rescale(old_mean, old_std, networks.returns.mean, networks.returns.std)
            old_outputs = networks.returns.normalise(estimates.values)
        rows, slots = valid.shape[0] * valid.shape[1], valid.shape[2]
        decided = torch.from_numpy(valid.reshape(rows, slots))
        clean = bool(valid.all())

        def flat(array: NDArray[Any], constant: float) -> torch.Tensor:
            tensor = torch.from_numpy(array.reshape(rows, slots, *array.shape[3:]))
            if clean or tensor.numel() == 0:
                return tensor
            keep = decided.reshape(rows, slots, *[1] * (tensor.dim() - 2))
            return torch.where(keep, tensor, torch.tensor(constant, dtype=tensor.dtype))

        batch = RoleBatch(
            observations=views.observations[networks.actor.role.name][:rows],
            state=None if views.state is None else views.state[:rows],
            action_mask=flat(data.action_mask, 1) if data.action_mask.shape[-1] else None,
            continuous_actions=flat(data.continuous_actions, 0),
            discrete_actions=flat(data.discrete_actions, 0),
            log_probs=flat(data.log_probs, 0),
            advantages=flat(advantages, 0),
            targets=flat(networks.returns.normalise(returns), 0),
            old_values=flat(old_outputs, 0),
            weights=decided.float(),
        )
        busy = decided.any(dim=1)
        return batch if clean or bool(busy.all()) else batch.rows(busy.nonzero().squeeze(1))

    def _learn(self, networks: _RoleNetworks, batch: RoleBatch) -> Metrics:
        """Epochs over minibatches; returns means over all gradient steps."""
        config = self._config
        sums: dict[str, float] = {}
        steps = 0
        who = f"mappo: role {networks.actor.role.name!r}, update {self._num_updates}"
        for epoch in range(config.epochs):
            divergence = 0.0
            for index, part in enumerate(minibatches(batch, config.minibatches, self._generator)):
                where = f"{who}, epoch {epoch}, minibatch {index}"
                figures = {**self._improve_actor(networks, part, where), **self._improve_critic(networks, part, where)}
                for name, value in figures.items():
                    sums[name] = sums.get(name, 0.0) + value
                steps += 1
                divergence = figures["approx_kl"]
            if config.target_kl is not None and divergence > config.target_kl:
                break
        return {name: value / steps for name, value in sums.items()} | {"gradient_steps": float(steps)}

    def _improve_actor(self, networks: _RoleNetworks, batch: RoleBatch, where: str) -> Metrics:
        """One gradient step on the clipped surrogate (Schulman et al. 2017, equation 7) and the entropy bonus."""
        clip = self._config.clip_coef
        distribution = networks.actor.distribution(batch.observations, batch.action_mask)
        log_probs, entropies = distribution.log_probs_and_entropy(batch.continuous_actions, batch.discrete_actions)
        log_ratio = (log_probs - batch.log_probs) * batch.weights
        ratio = log_ratio.exp()
        surrogate = torch.min(ratio * batch.advantages, ratio.clamp(1.0 - clip, 1.0 + clip) * batch.advantages)
        policy_loss = -batch.mean(surrogate)
        entropy = batch.mean(entropies)
        loss = policy_loss - self._config.ent_coef * entropy
        norm = _step(networks.actor_optimizer, loss, self._config.max_grad_norm_actor, f"{where}: policy")
        with torch.no_grad():
            return {
                "policy_loss": policy_loss.item(),
                "entropy": entropy.item(),
                # Schulman's estimator of low variance: http://joschu.net/blog/kl-approx.html
                "approx_kl": batch.mean((ratio - 1.0) - log_ratio).item(),
                "clip_fraction": batch.mean(((ratio - 1.0).abs() > clip).float()).item(),
                "actor_grad_norm": norm,
            }

    def _improve_critic(self, networks: _RoleNetworks, batch: RoleBatch, where: str) -> Metrics:
        """One gradient step on the Huber loss; both sides of the clip are outputs of the critic."""
        outputs = networks.critic(batch.state, batch.observations if networks.reads_observations else None)
        delta = self._config.huber_delta
        losses = functional.huber_loss(outputs, batch.targets, reduction="none", delta=delta)
        if self._config.clip_value_loss:
            clip = self._config.clip_coef
            clipped = batch.old_values + (outputs - batch.old_values).clamp(-clip, clip)
            losses = torch.max(losses, functional.huber_loss(clipped, batch.targets, reduction="none", delta=delta))
        value_loss = batch.mean(losses)
        loss = self._config.vf_coef * value_loss
        norm = _step(networks.critic_optimizer, loss, self._config.max_grad_norm_critic, f"{where}: value")
        return {"value_loss": value_loss.item(), "critic_grad_norm": norm}

    def _anneal(self) -> float:
        config = self._config
        left = 1.0 - min(self._num_updates / config.num_updates, 1.0) if config.anneal_learning_rate else 1.0
        actor_rate = config.learning_rate * left
        critic_rate = (config.critic_learning_rate or config.learning_rate) * left
        for networks in self._roles.values():
            set_learning_rate(networks.actor_optimizer, actor_rate)
            set_learning_rate(networks.critic_optimizer, critic_rate)
        return actor_rate

    def state(self) -> dict[str, Any]:
        """See :meth:`trainers.learner.Learner.state`."""
        return {
            "num_updates": self._num_updates,
            "generator": self._generator.get_state().numpy(),
            "views": self._views.state(),
            "roles": {name: networks.state() for name, networks in self._roles.items()},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """See :meth:`trainers.learner.Learner.load_state`."""
        self._num_updates = int(state["num_updates"])
        self._generator.set_state(torch.from_numpy(np.array(state["generator"], np.uint8)))
        self._views.load_state(state["views"])
        for name, networks in self._roles.items():
            networks.load_state(state["roles"][name])


class _RoleNetworks:
    """What belongs to one role: actor, critic, an optimizer for each, statistics of returns."""

    def __init__(self, role: RoleSpec, views: ViewBuilder, config: MappoConfig, generator: torch.Generator) -> None:
        shape = NetworkShape(config.hidden_sizes, config.activation, config.layer_norm)
        per_agent = config.policy_sharing == "per_agent"
        network = ActorNetwork(
            role.observation.size,
            role.num_slots,
            role.action,
            shape,
            per_agent=per_agent,
            agent_id=config.agent_id,
            initial_std=config.initial_std,
            generator=generator,
        )
        self.actor = RoleActor(role, network, views.observation_normaliser(role.name))
        self.reads_observations = config.critic_input != "state"
        self.critic = CriticNetwork(
            views.state_size,
            role.observation.size if self.reads_observations else 0,
            role.num_slots,
            shape,
            agent_id=config.agent_id or per_agent,
            generator=generator,
        )
        self.actor_optimizer = _adam(network.parameters(), config.learning_rate, config.adam_eps)
        critic_rate = config.critic_learning_rate or config.learning_rate
        self.critic_optimizer = _adam(self.critic.parameters(), critic_rate, config.adam_eps)
        self.returns = ValueNormaliser(config.value_decay, enabled=config.value_normalisation != "none")

    @torch.no_grad()
    def outputs(self, views: CriticViews) -> Float32:
        """(R, A) outputs of the critic."""
        observations = views.observations[self.actor.role.name]
        rows = max(1, _CHUNK // self.actor.role.num_slots)
        parts = [
            self.critic(
                None if views.state is None else views.state[start : start + rows],
                observations[start : start + rows] if self.reads_observations else None,
            )
            for start in range(0, len(observations), rows)
        ]
        return torch.cat(parts).numpy()

    def state(self) -> dict[str, Any]:
        return {
            "actor": {key: value.numpy().copy() for key, value in self.actor.network.state_dict().items()},
            "critic": {key: value.numpy().copy() for key, value in self.critic.state_dict().items()},
            "actor_optimizer": optimizer_state(self.actor_optimizer),
            "critic_optimizer": optimizer_state(self.critic_optimizer),
            "returns": self.returns.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        for network, key in ((self.actor.network, "actor"), (self.critic, "critic")):
            network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in state[key].items()})
        load_optimizer_state(self.actor_optimizer, state["actor_optimizer"])
        load_optimizer_state(self.critic_optimizer, state["critic_optimizer"])
        self.returns.load_state(state["returns"])


def _adam(parameters: Iterable[nn.Parameter], learning_rate: float, eps: float) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, lr=learning_rate, eps=eps, fused=True)


def _step(optimizer: torch.optim.Adam, loss: torch.Tensor, max_norm: float, where: str) -> float:
    """One gradient step; returns the norm before clipping."""
    if not math.isfinite(loss.item()):
        raise TrainingError(f"{where} loss: expected a finite number, got {loss.item()}. Lower learning_rate.")
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm).item()
    if not math.isfinite(norm):
        raise TrainingError(f"{where} gradient: expected a finite norm, got {norm}. Lower learning_rate.")
    optimizer.step()
    return norm


def _explained_variance(estimates: _Estimates) -> float:
    """Share of the returns' variance that the old values explain; 0 where returns do not vary."""
    valid = estimates.advantages.valid
    returns = estimates.advantages.returns[valid].astype(np.float64)
    variance = float(returns.var())
    return 1.0 - float((returns - estimates.values[valid]).var()) / variance if variance > 0 else 0.0

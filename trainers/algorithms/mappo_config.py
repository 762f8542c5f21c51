"""Hyper-parameters of MAPPO.

Apart from the algorithm's own file only because that one imports torch and a
scenario must be checkable without it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainers.config import TrainConfig

__all__ = ["MappoConfig"]


class MappoConfig(TrainConfig):
    """MAPPO (Yu et al. 2022); IPPO with ``critic_input: observation``."""

    algorithm: Literal["mappo"] = Field("mappo", description="Name of the algorithm.")

    # Returns and losses.
    gamma: float = Field(0.99, ge=0, le=1, description="Discount per decision of a robot.")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="Decay of the advantage's trace (GAE).")
    clip_coef: float = Field(0.2, gt=0, lt=1, description="Bound on the probability ratio's distance from 1.")
    clip_value_loss: bool = Field(
        True, description="Clip the value's move by clip_coef, in the space of the critic's output."
    )
    ent_coef: float = Field(0.01, ge=0, description="Weight of the entropy bonus.")
    vf_coef: float = Field(1.0, gt=0, description="Weight of the value loss.")
    huber_delta: float = Field(10.0, gt=0, description="Error of the value at which its loss turns linear.")
    target_kl: float | None = Field(
        None, gt=0, description="Epochs end early above this approximate KL divergence. null: never."
    )

    # Optimisation.
    epochs: int = Field(5, ge=1, le=1000, description="Passes over the data of an update.")
    minibatches: int = Field(2, ge=1, le=100_000, description="Gradient steps per pass.")
    learning_rate: float = Field(5e-4, gt=0, le=1, description="Adam's step size for actors.")
    critic_learning_rate: float | None = Field(
        None, gt=0, le=1, description="Adam's step size for critics. null: that of the actors."
    )
    anneal_learning_rate: bool = Field(False, description="Let both step sizes fall linearly to 0.")
    adam_eps: float = Field(1e-5, gt=0, description="Adam's epsilon.")
    max_grad_norm_actor: float = Field(0.5, gt=0, description="Bound on the norm of an actor's gradient.")
    max_grad_norm_critic: float = Field(1.0, gt=0, description="Bound on the norm of a critic's gradient.")

    # Networks.
    policy_sharing: Literal["shared", "per_agent"] = Field(
        "shared", description="shared: one actor per role; per_agent: one actor per robot. The critic is one per role."
    )
    agent_id: bool = Field(
        True, description="Tell networks the robot's slot (one-hot). With false a policy fits any fleet size."
    )
    critic_input: Literal["state", "observation", "state_and_observation"] = Field(
        "state_and_observation", description="What the critic reads: the global state, the robot's observation, both."
    )
    hidden_sizes: tuple[int, ...] = Field((64, 64), min_length=1, max_length=8, description="Width of hidden layers.")
    activation: Literal["tanh", "relu"] = Field("tanh", description="Activation of hidden layers.")
    layer_norm: bool = Field(True, description="Layer norm before every activation.")
    initial_std: float = Field(0.5, gt=0, le=10, description="Initial standard deviation of continuous actions.")

    # Normalisation.
    normalise_observations: bool = Field(False, description="Scale observations and states by running mean and std.")
    normaliser_clip: float = Field(10.0, gt=0, description="Bound on normalised observations and states.")
    value_normalisation: Literal["running", "popart", "none"] = Field(
        "running",
        description="running: the critic learns returns scaled by their running mean and std; popart: its last layer "
        "is also rescaled so that its predictions survive a change of scale; none: plain returns.",
    )
    value_decay: float = Field(
        0.99, ge=0, lt=1, description="Share of the old return statistics that survives an update."
    )
    advantage_normalisation: Literal["role", "agent", "all", "none"] = Field(
        "role", description="Over whose samples advantages are normalised, per update."
    )

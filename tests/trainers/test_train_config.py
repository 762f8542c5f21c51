from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from bridge.errors import ScenarioError
from bridge.scenario import Scenario, load_scenario
from trainers.algorithms.mappo_config import MappoConfig
from trainers.config import MAX_SEED, parse_overrides, train_config
from trainers.runs import environment_seed


def scenario(**train: Any) -> Scenario:
    return replace(load_scenario("warehouse_small"), train=train)


def test_config_takes_the_sections_values_then_the_overrides() -> None:
    config = train_config(scenario(num_envs=4, seed=7), {"seed": 8})
    assert isinstance(config, MappoConfig)
    assert (config.num_envs, config.seed) == (4, 8)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"num_env": 4}, r"train\.num_env: expected one of the keys .*Did you mean 'num_envs'\?"),
        ({"num_envs": "4"}, r"train\.num_envs: expected .*integer, got '4'"),
        ({"gamma": 1.5}, r"train\.gamma: expected .*1, got 1\.5"),
        ({"algorithm": "mapo"}, r"train\.algorithm: expected one of mappo, got 'mapo'\. Did you mean 'mappo'\?"),
        ({"num_workers": 9, "num_envs": 4}, r"num_workers=9 > num_envs=4"),
        ({"seed": 5, "eval_seed": 5}, r"eval_seed=5 = seed=5"),
    ],
)
def test_config_names_the_file_and_the_key_when_a_value_is_wrong(train: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as caught:
        train_config(scenario(**train))
    assert "warehouse_small.yaml" in str(caught.value)


def test_config_reports_all_faults_together() -> None:
    with pytest.raises(ScenarioError, match=r"(?s)train\.gamma.*train\.epochs|train\.epochs.*train\.gamma"):
        train_config(scenario(gamma=-1, epochs=0))


def test_overrides_read_numbers_lists_and_words() -> None:
    values = parse_overrides(
        ["learning_rate=1e-3", "hidden_sizes=[32, 16]", "activation=relu", "target_kl=null", "debug=true"]
    )
    assert values == {
        "learning_rate": 1e-3,
        "hidden_sizes": [32, 16],
        "activation": "relu",
        "target_kl": None,
        "debug": True,
    }
    assert train_config(scenario(), values).model_dump()["hidden_sizes"] == (32, 16)


@pytest.mark.parametrize("text", ["num_envs", "=3"])
def test_overrides_raise_when_there_is_no_assignment(text: str) -> None:
    with pytest.raises(ScenarioError, match="expected KEY=VALUE"):
        parse_overrides([text])


def test_overrides_raise_when_the_value_is_not_yaml() -> None:
    with pytest.raises(ScenarioError, match="override hidden_sizes: expected a YAML value"):
        parse_overrides(["hidden_sizes=[1"])


def test_config_counts_updates_from_environment_steps() -> None:
    config = MappoConfig(num_envs=4, rollout_steps=10, total_env_steps=81)
    assert config.num_updates == 3
    assert MappoConfig(num_envs=4, updates=7).num_updates == 7


def test_every_field_has_a_description() -> None:
    assert all(field.description for field in MappoConfig.model_fields.values())


def test_derived_seeds_are_never_a_users_seed() -> None:
    assert environment_seed(5, 0) == 5
    seeds = {environment_seed(5, update) for update in range(1, 200)}
    assert len(seeds) == 199
    assert min(seeds) > MAX_SEED
    assert max(seeds) < 2**32


def test_package_and_config_do_not_import_torch() -> None:
    code = (
        "import sys, trainers, trainers.config, trainers.algorithms.mappo_config, trainers.runs, trainers.progress;"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

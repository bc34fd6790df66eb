from __future__ import annotations

from pathlib import Path

import pytest

from gradient_rl.errors import NothingToReadError, UsageError
from gradient_rl.rewards.advantages import Estimator
from gradient_rl.training.config import DEFAULTS, LOCAL, TrainingConfig, load_config


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.toml"


def written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def refusal(file: Path, text: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_config({}, written(file, text))
    return str(caught.value)


# -- where a value comes from


def test_nothing_given_is_the_defaults() -> None:
    assert load_config({}) == TrainingConfig()


def test_a_flag_overrides_the_file_and_the_file_the_default(file: Path) -> None:
    written(file, "max_steps = 7\ngroup_size = 5\n")
    config = load_config({"max_steps": 3, "seed": None}, file)

    assert (config.max_steps, config.group_size, config.seed) == (3, 5, TrainingConfig().seed)


def test_a_flag_of_0_is_given(file: Path) -> None:
    assert load_config({"seed": 0}, written(file, "seed = 9")).seed == 0


@pytest.mark.parametrize("by_flag", [True, False])
def test_another_learner_brings_its_own_defaults(file: Path, by_flag: bool) -> None:
    written(file, "" if by_flag else 'policy = "art"')
    config = load_config({"policy": "art" if by_flag else None}, file)

    assert {name: getattr(config, name) for name in DEFAULTS["art"]} == DEFAULTS["art"]
    assert config.temperature == TrainingConfig().temperature


@pytest.mark.parametrize("by_flag", [True, False])
def test_a_language_model_on_this_machine_brings_its_own_defaults(file: Path, by_flag: bool) -> None:
    written(file, 'policy = "art"' + ("" if by_flag else '\nbase_model = "smollm2"'))
    config = load_config({"base_model": "smollm2" if by_flag else None, "group_size": 3}, file, embedded=True)

    assert {name: getattr(config, name) for name in LOCAL} == {**LOCAL, "group_size": 3}


@pytest.mark.parametrize(("base_model", "embedded"), [("./weights", False), (None, True), ("linear", True)])
def test_a_model_of_the_service_or_a_stand_in_does_not(base_model: str | None, embedded: bool) -> None:
    config = load_config({"policy": "art", "base_model": base_model}, embedded=embedded)

    assert {name: getattr(config, name) for name in DEFAULTS["art"]} == DEFAULTS["art"]


def test_a_warm_start_is_for_what_can_imitate() -> None:
    assert load_config({"policy": "art", "warm_start": 200}).warm_start == 200
    with pytest.raises(UsageError, match="--warm-start: linear has no warm start; leave it out, or train --policy art"):
        load_config({"warm_start": 200})


def test_the_file_and_the_flags_override_a_learners_defaults(file: Path) -> None:
    written(file, 'policy = "art"\nmax_steps = 7\ngroup_size = 5')
    config = load_config({"group_size": 6}, file)

    assert (config.max_steps, config.group_size, config.tasks_per_step) == (7, 6, DEFAULTS["art"]["tasks_per_step"])


def test_the_learner_that_a_flag_names_decides_on_the_defaults(file: Path) -> None:
    assert load_config({"policy": "linear"}, written(file, 'policy = "art"')) == TrainingConfig()


def test_tables_set_the_limits_and_the_reward(file: Path) -> None:
    text = (
        "[limits]\nmax_calls = 6\n[reward]\nrequire_opened = false\n[reward.weights]\ncorrectness = 0.75\nefficiency = 0.25\n"
    )
    config = load_config({}, written(file, text))

    assert (config.limits.max_calls, config.limits.max_malformed) == (6, TrainingConfig().limits.max_malformed)
    assert config.reward.weights == {"correctness": 0.75, "efficiency": 0.25}
    assert not config.reward.require_opened


def test_a_word_is_read_as_the_estimator_of_that_name(file: Path) -> None:
    assert load_config({}, written(file, 'estimator = "leave_one_out"')).estimator is Estimator.LEAVE_ONE_OUT


def test_every_learners_defaults_are_fields_that_fit() -> None:
    for policy in DEFAULTS:
        assert load_config({"policy": policy}).policy == policy


def test_a_configuration_survives_being_written_and_read() -> None:
    config = load_config({"policy": "art", "seed": 4})

    assert TrainingConfig.model_validate_json(config.model_dump_json()) == config


# -- what is refused


@pytest.mark.parametrize(
    ("text", "where", "nearest"),
    [
        ("max_step = 3", "max_step", "max_steps"),
        ("learning-rate = 0.1", "learning-rate", "learning_rate"),
        ("[limits]\nmax_call = 3", "limits.max_call", "max_calls"),
        ("[reward]\nrequire_open = true", "reward.require_open", "require_opened"),
    ],
)
def test_an_unknown_field_is_told_the_nearest(file: Path, text: str, where: str, nearest: str) -> None:
    said = refusal(file, text)

    assert said.startswith(f"--config {file}: {where}: there is no such field; the nearest are {nearest}")


def test_an_unknown_field_that_is_near_nothing_is_still_told_some(file: Path) -> None:
    assert refusal(file, "zzz = 1").partition("the nearest are ")[2].count(",") == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_steps = 0", "max_steps is 0, and it must fit: input should be greater than or equal to 1"),
        ('max_steps = "many"', "max_steps is 'many', and it must fit: input should be a valid integer"),
        ("max_steps = 1.5", "max_steps is 1.5, and it must fit: input should be a valid integer"),
        ("group_size = 1", "group_size is 1, and it must fit: input should be greater than or equal to 2"),
        ("clip_ratio = 1.0", "clip_ratio is 1.0, and it must fit: input should be less than 1"),
        ("learning_rate = nan", "learning_rate is nan, and it must fit: input should be a finite number"),
        ("entropy_bonus = inf", "entropy_bonus is inf, and it must fit: input should be a finite number"),
        ("kl_penalty = nan", "kl_penalty is nan, and it must fit: input should be a finite number"),
        ("kl_penalty = inf", "kl_penalty is inf, and it must fit: input should be a finite number"),
        ('estimator = "best"', "estimator is 'best', and it must fit: input should be 'group_std', 'group_mean' or 'leave_one_out'"),
        ('loss = "mse"', "loss is 'mse', and it must fit: input should be 'cispo' or 'ppo'"),
        ("seed = true", "seed is True, and it must fit: input should be a valid integer"),
        ('max_steps = "8"', "max_steps is '8', and it must fit: input should be a valid integer"),
        ("credit_by_part = 1", "credit_by_part is 1, and it must fit: input should be a valid boolean"),
        ("policy = 3", "policy is 3, and it must fit: input should be a valid string"),
        ("limits = 3", "limits is 3, and it must fit: input should be an object"),
        ("[limits]\nmax_calls = 0", "limits.max_calls is 0, and it must fit: input should be greater than or equal to 1"),
        (
            "[reward.weights]\ncorrectness = 0.5",
            "reward is {'weights': {'correctness': 0.5}}, and it must fit: weights must lie in [0, 1] and add up to 1, and these add up to 0.5",
        ),
    ],
)  # fmt: skip
def test_an_impossible_value_is_named_with_what_is_allowed(file: Path, text: str, said: str) -> None:
    assert refusal(file, text).startswith(f"--config {file}: {said}")


def test_an_impossible_flag_is_named_as_the_flag(file: Path) -> None:
    with pytest.raises(UsageError, match="^--group-size is 1, and it must fit: input should be greater than or equal to 2$"):
        load_config({"group_size": 1}, written(file, "group_size = 8"))


def test_an_unknown_reward_part_is_told_the_parts(file: Path) -> None:
    said = refusal(file, "[reward.weights]\ncorrectness = 0.5\nstyle = 0.5")

    assert "there is no reward part 'style'; the parts are correctness, citation_quality, efficiency" in said
    assert str(file) in said


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(NothingToReadError, match="run.toml is not there; check the path"):
        load_config({}, file)


@pytest.mark.parametrize("text", ["max_steps 3", "max_steps = ", "[limits", "max_steps = 1\nmax_steps = 2"])
def test_a_file_that_is_no_toml_is_told_how_to_write_it(file: Path, text: str) -> None:
    said = refusal(file, text)

    assert said.startswith(f"--config {file} cannot be read as TOML: ")
    assert said.endswith("; write lines such as max_steps = 20")


def test_a_file_that_is_no_text_is_told_so(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read as TOML"):
        load_config({}, file)


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_config({}, tmp_path)


def test_art_is_not_asked_for_what_it_does_not_compute() -> None:
    with pytest.raises(UsageError, match="estimator: art computes advantages itself"):
        load_config({"policy": "art", "estimator": "leave_one_out"})

from __future__ import annotations

from random import Random

import pytest

from gradient_rl.worlds.naming import Register, address, plain
from gradient_rl.worlds.office import load_office


@pytest.fixture
def register() -> Register:
    return Register(load_office().names)


def test_no_two_people_have_one_name(register: Register) -> None:
    rng = Random(1)
    people = [register.person(rng) for _ in range(3000)]

    assert len(set(people)) == 3000


def test_no_two_customers_have_one_name(register: Register) -> None:
    rng = Random(1)
    customers = [register.proper(rng) for _ in range(2000)]

    assert len(set(customers)) == 2000


def test_a_name_goes_to_one_only_whatever_the_generator_draws(register: Register) -> None:
    assert register.person(Random(1)) != register.person(Random(1))
    assert register.number(Random(1)) != register.number(Random(1))


def test_a_nickname_names_the_town_and_is_handed_out_once(register: Register) -> None:
    called, rng = ("the creamery", "the milk people"), Random(1)
    first, second = (register.nickname(called, "Fethard", rng) for _ in range(2))

    assert {first, second} == {"the creamery in Fethard", "the milk people in Fethard"}
    assert register.nickname(called, "Fethard", rng) == ""
    assert register.nickname(called[:1], "Cahir", rng) == "the creamery in Cahir"


def test_numbers_grow_a_digit_when_they_are_scarce(register: Register) -> None:
    rng = Random(1)
    numbers = [register.number(rng, "K-", 1) for _ in range(30)]

    assert {*map(str, range(1, 10))} == {number[2:] for number in numbers if len(number) == 3}
    assert all(number[2:] in map(str, range(10, 100)) for number in numbers if len(number) != 3)
    assert len(set(numbers)) == 30


def test_numbers_under_different_letters_do_not_compete(register: Register) -> None:
    assert register.number(Random(1), "K-", 4)[2:] == register.number(Random(1), "M-", 4)[2:]


def test_a_tag_follows_its_pattern(register: Register) -> None:
    tag = register.tag("CR-ddd", Random(1))

    assert tag.startswith("CR-")
    assert 100 <= int(tag[3:]) <= 999


@pytest.mark.parametrize(("name", "letters"), [("Órla Ní Bhriain", "orlanibhriain"), ("Tobin & Yeates", "tobinyeates")])
def test_an_address_is_made_of_plain_letters(name: str, letters: str) -> None:
    assert plain(name) == letters


def test_the_last_names_are_joined_behind_the_dot() -> None:
    assert address("Aoife Mac O'Brien", "marlowe.example") == "aoife.macobrien@marlowe.example"

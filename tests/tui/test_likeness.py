"""How well a name has what is typed in the palette."""

from __future__ import annotations

import pytest
from textual.fuzzy import FuzzySearch

from npu_tui.tui.commands import COMMANDS
from npu_tui.tui.palette import likeness

TITLES = sorted({command.title for command in COMMANDS})


@pytest.mark.parametrize("query", ["zoom", "flgs", "sq", "fit sel", "QUIT", "x y z", "9", "clock of every rank"])
def test_the_same_names_are_found_as_by_textual_and_none_scores_higher(query):
    theirs = {title: FuzzySearch().match(query, title)[0] for title in TITLES}
    ours = {title: likeness(query, title) for title in TITLES}
    assert {title for title in TITLES if ours[title]} == {title for title in TITLES if theirs[title]}
    whole = [title for title in TITLES if query.lower() in title.lower()]
    assert all(ours[title] >= theirs[title] for title in whole)
    assert all(ours[title] <= theirs[title] for title in TITLES if title not in whole)


def test_a_name_of_two_letters_takes_no_longer_than_others():
    assert likeness("a" * 100, "ab" * 200) > 0  # the ways to choose 100 of 200 letters have 59 digits
    assert likeness("a" * 100, "ab" * 99) == 0

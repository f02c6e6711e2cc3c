from __future__ import annotations

from npu_tui.view.viewport import BURST_SECONDS, ViewHistory

REST = BURST_SECONDS + 0.01


def test_a_burst_is_one_entry():
    history: ViewHistory[str] = ViewHistory()
    for moment, place in enumerate("abcd"):
        history.leave(place, moment * BURST_SECONDS / 2)
    assert history.past == ["a"]


def test_moves_after_a_rest_are_entries_of_their_own():
    history: ViewHistory[str] = ViewHistory()
    history.leave("a", 0)
    history.leave("b", REST)
    assert history.past == ["a", "b"]


def test_a_place_is_not_remembered_twice_in_a_row():
    history: ViewHistory[str] = ViewHistory()
    history.leave("a", 0)
    history.leave("a", REST)
    assert history.past == ["a"]


def test_undo_and_redo_walk_the_same_places():
    history: ViewHistory[str] = ViewHistory()
    history.leave("a", 0)
    history.leave("b", REST)
    assert history.undo("c") == "b"
    assert history.undo("b") == "a"
    assert history.undo("a") is None
    assert history.redo("a") == "b"
    assert history.redo("b") == "c"
    assert history.redo("c") is None


def test_a_move_after_undo_drops_what_was_ahead():
    history: ViewHistory[str] = ViewHistory()
    history.leave("a", 0)
    history.undo("b")
    history.leave("a", REST)
    assert history.redo("x") is None


def test_undo_ends_a_burst():
    history: ViewHistory[str] = ViewHistory()
    history.leave("a", 0)
    history.undo("b")
    history.leave("a", 0.01)
    assert history.past == ["a"]


def test_nothing_to_undo_leaves_nothing_to_redo():
    history: ViewHistory[str] = ViewHistory()
    assert history.undo("a") is None
    assert history.redo("a") is None

from __future__ import annotations

from npu_tui.tui.tabs.table import Order, TabRow, TabTable, arranged, numeric, sortable

ROWS = [
    TabRow(("3 ms", "b"), values=(3, "b")),
    TabRow(("20 ms", "a"), values=(20, "a")),
    TabRow(("", "C"), values=(None, "C")),
    TabRow(("100 µs", "d"), values=(0.1, "d")),
]
TABLE = TabTable(("time", "name"), ROWS, "note", at=1)


def names(table: TabTable) -> list[object]:
    return [row.cells[1] for row in table.rows]


def test_a_table_comes_in_its_own_order() -> None:
    assert names(arranged(TABLE, Order())) == ["b", "a", "C", "d"]
    assert arranged(TABLE, Order()).headings == ("time", "name")


def test_numbers_fall_and_words_rise_and_the_unknown_comes_last() -> None:
    by_time = Order().by(TABLE, 0)
    assert names(arranged(TABLE, by_time)) == ["a", "b", "d", "C"]
    assert names(arranged(TABLE, by_time.by(TABLE, 0))) == ["d", "b", "a", "C"]
    assert names(arranged(TABLE, Order().by(TABLE, 1))) == ["a", "b", "C", "d"]
    assert arranged(TABLE, by_time).headings == ("time ▾", "name")


def test_the_arrows_walk_round_the_columns() -> None:
    order = Order()
    walked = []
    for step in (1, 1, 1, -1):
        order = order.beside(TABLE, step)
        walked.append(order.column)
    assert walked == [0, 1, 0, 1]
    assert Order().beside(TABLE, -1).column == 1


def test_a_filter_reads_all_cells_and_the_cursor_follows_its_row() -> None:
    found = arranged(TABLE, Order(wanted="MS"))
    assert names(found) == ["b", "a"]
    assert found.at == 1
    assert "2 of 4 with MS" in found.note
    assert arranged(TABLE, Order(wanted="d")).at is None


def test_without_values_there_is_nothing_to_sort_by() -> None:
    plain = TabTable(("name",), [TabRow(("b",)), TabRow(("a",))])
    assert not sortable(plain)
    assert Order().beside(plain, 1) == Order()
    assert arranged(plain, Order(column=0)).headings == ("name",)


def test_columns_of_numbers_are_those_that_show_some() -> None:
    rows = [
        TabRow(("HIGH", "12 ms", "a", "", "7"), (), (0, 12, "a", None, 7)),
        TabRow(("LOW", "", "b", "", "many"), (), (2, None, "b", None, "many")),
        TabRow(("LOW", "nothing", "c", "", "1"), (), (2, 0, "c", None, 1)),
    ]
    assert numeric(TabTable(("class", "time", "name", "unknown", "mixed"), rows)) == {1}
    assert numeric(TabTable(("time",), [TabRow(("1 ms",))])) == frozenset()

"""Code lines are the same lines where they moved, and where the project lies elsewhere."""

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.compare.operations import LineCost, line_changes


def cost(line, lost, *operations, file="/home/a/vit/train.py", function="step"):
    return LineCost(CodeLine(file, line, function), lost, 1.0, operations)


def pairs(rows):
    return {(row.base.code.line if row.base else None, row.new.code.line if row.new else None) for row in rows}


def test_equal_numbers_are_equal_lines_in_another_folder():
    rows = line_changes([cost(7, 10.0)], [cost(7, 4.0, file="/mnt/b/vit/train.py")])
    assert pairs(rows) == {(7, 7)}
    assert rows[0].delta == -6.0


def test_lines_of_a_function_that_moved_are_matched_by_what_they_launch():
    base = [cost(10, 5.0, "aten::add"), cost(20, 6.0, "aten::mm"), cost(30, 7.0, "aten::sum")]
    new = [
        cost(17, 5.0, "aten::add"),
        cost(27, 9.0, "aten::mm"),
        cost(37, 7.0, "aten::sum"),
        cost(40, 1.0, "aten::mul"),
    ]
    assert pairs(line_changes(base, new)) == {(10, 17), (20, 27), (30, 37), (None, 40)}


def test_two_files_of_one_name_are_told_apart():
    base = [cost(7, 1.0, file="/w/a/model.py"), cost(7, 2.0, file="/w/b/model.py")]
    new = [cost(7, 3.0, file="/x/a/model.py"), cost(7, 5.0, file="/x/b/model.py")]
    assert sorted(row.delta for row in line_changes(base, new)) == [2.0, 3.0]


def test_launches_without_a_stack_are_one_line():
    rows = line_changes([LineCost(None, 3.0, 2.0)], [LineCost(None, 4.0, 2.0)])
    assert [(row.code, row.delta) for row in rows] == [(None, 1.0)]


def test_a_number_that_launches_something_else_is_still_one_line():
    """Most lines of the function launch in another order of chance: it has not moved."""
    base = [cost(10, 5.0, "aten::a"), cost(20, 6.0, "aten::b"), cost(30, 7.0, "aten::c")]
    new = [cost(10, 1.0, "aten::x"), cost(20, 2.0, "aten::y"), cost(30, 3.0, "aten::c")]
    assert pairs(line_changes(base, new)) == {(10, 10), (20, 20), (30, 30)}

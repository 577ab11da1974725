"""Places of a graph's nodes: in columns from source to target, none on top of another, whatever the graph."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.lineage.layout import FOLD, layered


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 14))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node), max_size=30))


@given(graphs())
@settings(max_examples=60)
def test_no_two_nodes_share_a_place(graph):
    count, links = graph
    found = layered(count, links)
    columns: dict[int, list[float]] = {}
    for column, row in zip(found.columns, found.rows, strict=True):
        columns.setdefault(column, []).append(row)
    for rows in columns.values():
        rows.sort()
        assert all(second - first > 0.99 for first, second in zip(rows, rows[1:], strict=False))


@given(graphs())
@settings(max_examples=60)
def test_links_go_to_the_right_unless_they_close_a_circle(graph):
    count, links = graph
    forward = [(min(link), max(link)) for link in links if link[0] != link[1]]
    found = layered(count, forward)
    assert all(found.columns[source] < found.columns[target] for source, target in forward)


@given(graphs())
@settings(max_examples=60)
def test_a_link_bends_once_in_every_column_that_it_passes_in_its_own_direction(graph):
    count, links = graph
    found = layered(count, links)
    assert len(found.bends) == len(links)
    for (source, target), bends in zip(links, found.bends, strict=True):
        first, last = found.columns[source], found.columns[target]
        step = 1 if first <= last else -1
        assert [column for column, _ in bends] == list(range(first + step, last, step))


@given(graphs())
@settings(max_examples=20)
def test_the_same_graph_is_drawn_the_same_way(graph):
    assert layered(*graph) == layered(*graph)


def test_a_chain_is_a_straight_line():
    found = layered(4, [(0, 1), (1, 2), (2, 3)])
    assert found.columns == (0, 1, 2, 3)
    assert set(found.rows) == {0.0}


def test_lines_that_need_not_cross_do_not():
    found = layered(6, [(0, 5), (1, 4), (2, 3)])
    left = sorted(range(3), key=lambda node: found.rows[node])
    assert [found.rows[5 - node] for node in left] == sorted(found.rows[5 - node] for node in left)


def test_a_source_stands_beside_what_it_feeds():
    found = layered(4, [(0, 1), (1, 2), (3, 2)])
    assert found.columns[3] == 1


def test_a_layer_that_is_too_tall_is_folded_into_columns_that_lines_pass_between_the_boxes():
    many = 3 * FOLD
    found = layered(
        many + 2, [(0, node) for node in range(1, many + 1)] + [(node, many + 1) for node in range(1, many + 1)]
    )
    assert max(found.rows) - min(found.rows) < FOLD + 1
    assert {found.columns[node] for node in range(1, many + 1)} == {1, 2, 3}
    assert found.columns[many + 1] == 4
    boxes = {(found.columns[node], found.rows[node]) for node in range(many + 2)}
    passing = [point for bends in found.bends for point in bends]
    assert passing
    assert not boxes & set(passing)


def test_a_chain_of_two_thousand_nodes_needs_no_recursion():
    assert layered(2_000, [(node, node + 1) for node in range(1_999)]).columns[-1] == 1_999


def test_a_graph_without_nodes_has_no_places():
    assert layered(0, []).columns == ()


def test_a_link_to_nowhere_is_refused():
    with pytest.raises(ValueError, match=r"link \(0, 7\): nodes are 0 to 1"):
        layered(2, [(0, 7)])

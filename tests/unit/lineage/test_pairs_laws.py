"""Laws of the rule on random workflows."""

from __future__ import annotations

import random

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.lineage.columns import ColumnEdge, compose
from airflow_kafka_hdfs.lineage.expansion import run_lineage
from airflow_kafka_hdfs.lineage.graph import derive
from airflow_kafka_hdfs.lineage.pairs import Flow, Intermediates, Node, Options
from airflow_kafka_hdfs.lineage.workflow import (
    ExplicitTarget,
    RunFacts,
    TaskIo,
    TaskSpec,
    Use,
    Workflow,
    decode_workflow,
    encode_workflow,
)
from airflow_kafka_hdfs.ports.lineage import PairState

from .sketch import ds

NAMES = "ABCDEF"
datasets = st.sampled_from(NAMES).map(ds)
options = st.builds(
    Options, flow=st.sampled_from(Flow), intermediates=st.sampled_from(Intermediates), schedule_inputs=st.booleans()
)


@st.composite
def node_lists(draw, *, explicit=True):
    """Random task instances; node i waits only for nodes before it."""
    nodes = []
    for index in range(draw(st.integers(1, 9))):
        parents = tuple(draw(st.sets(st.integers(0, index - 1), max_size=3))) if index else ()
        named = None
        if explicit and draw(st.integers(0, 4)) == 0:
            targets = draw(st.dictionaries(datasets, st.sets(datasets, max_size=2), max_size=2))
            named = tuple(ExplicitTarget(target, tuple(sorted(sources))) for target, sources in targets.items())
        nodes.append(
            Node(
                task_id=f"t{index}",
                parents=parents,
                xcom=frozenset(draw(st.sets(st.sampled_from(parents)))) if parents else frozenset(),
                reads=tuple(Use(d) for d in draw(st.sets(datasets, max_size=2))),
                writes=tuple(Use(d, inherit=draw(st.integers(0, 5)) > 0) for d in draw(st.sets(datasets, max_size=2))),
                explicit=named,
                state=draw(st.sampled_from([PairState.WRITTEN] * 3 + [PairState.FAILED, PairState.SKIPPED])),
            )
        )
    return nodes


def by_reachability(nodes, how, temporary, live):
    """The rule as a question of reachability: in a graph of arrivals (t) and of writes (t, d), who reaches whom?"""
    order = nx.DiGraph([(p, i) for i, node in enumerate(nodes) for p in node.parents])
    order.add_nodes_from(range(len(nodes)))
    above = {i: nx.ancestors(order, i) for i in order}
    reads = {
        i: {u.dataset for u in n.reads} | {s for e in n.explicit or () for s in e.sources} for i, n in enumerate(nodes)
    }
    writes = {i: {u.dataset for u in n.writes} | {e.target for e in n.explicit or ()} for i, n in enumerate(nodes)}
    internal = {(i, d) for i in reads for d in reads[i] if any(d in writes[w] for w in above[i])}
    dropped = set()
    if how.intermediates is not Intermediates.NONE:
        dropped = set(temporary)
    if how.intermediates is Intermediates.ALL:
        every = {d for found in reads.values() for d in found}
        dropped |= {d for d in every if all((i, d) in internal for i in reads if d in reads[i])}
    flow = nx.DiGraph()

    def feed(index, dataset, into):
        if dataset in dropped and (index, dataset) in internal:
            for writer in above[index]:
                if dataset in writes[writer] and live[writer]:
                    flow.add_edge(("write", writer, dataset), into)
        else:
            flow.add_edge(("source", dataset), into)

    for i, node in enumerate(nodes):
        if not live[i]:
            continue
        for dataset in reads[i]:
            feed(i, dataset, ("own", i))
        flow.add_edge(("own", i), ("here", i))
        for parent in node.parents:
            carries = how.flow is Flow.WORKFLOW or parent in node.xcom or not reads[i]
            if live[parent] and how.flow is not Flow.DATASET and carries:
                flow.add_edge(("here", parent), ("inherited", i))
                flow.add_edge(("inherited", i), ("here", i))
        named = {e.target: set() for e in node.explicit or ()}
        for e in node.explicit or ():
            named[e.target] |= set(e.sources)
        for target in writes[i]:
            inherits = all(u.inherit for u in node.writes if u.dataset == target)
            spot = ("write", i, target)
            if target in named:
                for source in named[target]:
                    feed(i, source, spot)
            else:
                if node.explicit is None:
                    flow.add_edge(("own", i), spot)
                if inherits:
                    flow.add_edge(("inherited", i), spot)
    found = set()
    for spot in list(flow):
        if spot[0] == "write" and spot[2] not in dropped:
            found |= {(a[1], spot[2]) for a in nx.ancestors(flow, spot) if a[0] == "source"}
    return found


@given(node_lists(), options, st.sets(datasets, max_size=3))
def test_the_single_pass_equals_reachability_in_every_mode(nodes, how, temporary):
    found = derive(nodes, how, frozenset(temporary))
    everything = by_reachability(nodes, how, temporary, [True] * len(nodes))
    live = by_reachability(nodes, how, temporary, [n.state is PairState.WRITTEN for n in nodes])
    assert {(p.source, p.target) for p in found.pairs} == everything
    assert {(p.source, p.target) for p in found.pairs if p.observed} == live


@given(node_lists(explicit=False), options, st.sets(datasets, max_size=3))
def test_the_path_of_a_pair_leads_from_a_reader_to_a_writer_along_the_dag(nodes, how, temporary):
    order = nx.DiGraph([(p, i) for i, node in enumerate(nodes) for p in node.parents])
    order.add_nodes_from(range(len(nodes)))
    for pair in derive(nodes, how, frozenset(temporary)).pairs:
        steps = [int(task_id[1:]) for task_id in pair.path]
        assert pair.source in {use.dataset for use in nodes[steps[0]].reads}
        assert pair.target in {use.dataset for use in nodes[steps[-1]].writes}
        assert all(nx.has_path(order, a, b) for a, b in zip(steps, steps[1:], strict=False))
        assert (pair.state is PairState.WRITTEN) == pair.observed


@given(node_lists(), options, st.sets(datasets, max_size=3), st.randoms(use_true_random=False))
def test_the_order_in_which_tasks_are_listed_does_not_matter(nodes, how, temporary, chance: random.Random):
    places = list(range(len(nodes)))
    chance.shuffle(places)
    moved = [None] * len(nodes)
    for index, node in enumerate(nodes):
        moved[places[index]] = Node(
            task_id=node.task_id,
            parents=tuple(places[p] for p in node.parents),
            xcom=frozenset(places[p] for p in node.xcom),
            reads=node.reads,
            writes=node.writes,
            explicit=node.explicit,
            state=node.state,
        )
    one, other = derive(nodes, how, frozenset(temporary)), derive(moved, how, frozenset(temporary))
    key = [(p.source, p.target, p.observed, p.instances) for p in one.pairs]
    assert key == [(p.source, p.target, p.observed, p.instances) for p in other.pairs]
    assert (one.inputs, one.outputs, one.refused) == (other.inputs, other.outputs, other.refused)


@given(node_lists(explicit=False), options, st.sets(datasets, max_size=3))
def test_within_a_run_lineage_never_leads_in_a_circle(nodes, how, temporary):
    """Datasets may be read and written back; the tasks that hand data on never come round."""
    steps = nx.DiGraph()
    for pair in derive(nodes, how, frozenset(temporary)).pairs:
        nx.add_path(steps, pair.path)
    assert nx.is_directed_acyclic_graph(steps)


@st.composite
def workflows(draw):
    tasks = []
    for index in range(draw(st.integers(1, 6))):
        upstream = tuple(f"t{i}" for i in sorted(draw(st.sets(st.integers(0, index - 1), max_size=2)))) if index else ()
        tasks.append(
            TaskSpec(
                task_id=f"t{index}",
                upstream=upstream,
                xcom=tuple(u for u in upstream if draw(st.booleans())),
                reads=tuple(Use(d) for d in draw(st.sets(datasets, max_size=2))),
                writes=tuple(Use(d) for d in draw(st.sets(datasets, max_size=2))),
                mapped=draw(st.booleans()),
            )
        )
    return Workflow(tasks=tuple(tasks), temporary=frozenset(draw(st.sets(datasets, max_size=2))))


reports = st.builds(
    TaskIo,
    task_id=st.sampled_from([f"t{i}" for i in range(6)]),
    map_index=st.integers(-1, 2),
    try_number=st.integers(1, 3),
    state=st.sampled_from(["success", "failed"]),
    reads=st.lists(datasets.map(Use), max_size=2, unique=True).map(tuple),
    writes=st.lists(datasets.map(Use), max_size=2, unique=True).map(tuple),
    complete=st.booleans(),
)


@given(workflows(), st.lists(reports, max_size=6), options, st.randoms(use_true_random=False))
def test_reports_may_come_in_any_order_and_more_than_once(workflow, sent, how, chance):
    again = sent + [report for report in sent if chance.random() < 0.5]
    chance.shuffle(again)
    run = RunFacts(states={(r.task_id, r.map_index): (r.state, 1) for r in sent[:3]})
    assert run_lineage(workflow, run, sent, how) == run_lineage(workflow, run, again, how)


@given(workflows())
def test_a_structure_survives_its_json_and_keeps_its_hash(workflow):
    decoded = decode_workflow(encode_workflow(workflow))
    assert decoded.structure_hash == workflow.structure_hash
    turned = Workflow(tasks=tuple(reversed(workflow.tasks)), temporary=workflow.temporary)
    assert turned.structure_hash == workflow.structure_hash
    assert run_lineage(decoded).derivation.pairs == run_lineage(workflow).derivation.pairs


links = st.tuples(
    st.booleans(), st.sampled_from(["IDENTITY", "TRANSFORMATION", "AGGREGATION", "FILTER", "JOIN"]), st.booleans()
)


@given(links, links, links)
def test_composing_column_edges_is_associative(one, two, three):
    a = ColumnEdge(ds("A"), "a", ds("B"), "b", *one)
    b = ColumnEdge(ds("B"), "b", ds("C"), "c", *two)
    c = ColumnEdge(ds("C"), "c", ds("D"), "d", *three)
    assert compose(compose(a, b), c) == compose(a, compose(b, c))

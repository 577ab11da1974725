"""The rule, case by case: what is read where, what is written where, and which pairs follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_hdfs.exceptions import ConfigError, LineageError
from airflow_kafka_hdfs.lineage.columns import ColumnEdge
from airflow_kafka_hdfs.lineage.expansion import run_lineage
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.pairs import Options
from airflow_kafka_hdfs.lineage.workflow import Evidence, RunFacts, TaskIo, TaskSpec, Use, Workflow

from .sketch import ALL, DATASET, NONE, WORKFLOW, YELP, declared, draw, ds, explicit, facts, observed, states, uses


@pytest.mark.parametrize(
    ("sketch", "options", "pairs"),
    [
        ("e(A->) >> t() >> l(->Z)", None, "A>Z"),
        ("e(A->) >> t() >> l(->Z)", DATASET, ""),
        ("e(A->) >> [b(), c()] >> l(->Z)", None, "A>Z"),
        ("r1(1->) >> j(); r2(2->) >> j >> o1(->P); r1 >> o2(->Q)", None, "1>P 1>Q 2>P"),
        ("r1(1->) >> j(); r2(2->) >> j >> o1(->P); r1 >> o2(->Q)", YELP, "1>P 1>Q 2>P"),
        ("t1(A->B); t2(C->D)", None, "A>B C>D"),
        ("t1(A->B) >> t2(C->D)", None, "A>B C>D"),
        ("t1(A->B) >> t2(C->D)", WORKFLOW, "A>B A>D C>D"),
        ("t(A,B->C,D)", None, "A>C A>D B>C B>D"),
        ("t(A,B->C,D ! A>C, B>D)", None, "A>C B>D"),
        ("t1(A->M) >> t2(M->Z)", None, "A>M M>Z"),
        ("t1(A->M) >> t2(M->Z)", ALL, "A>Z"),
        ("t1(A->M) >> t2(M->Z)", WORKFLOW, "A>M A>Z M>Z"),
        ("a(A->tmp1) >> b(tmp1->tmp2) >> c(tmp2->Z)", None, "A>Z"),
        ("a(A->tmp1) >> b(tmp1->tmp2) >> c(tmp2->Z)", NONE, "A>tmp1 tmp1>tmp2 tmp2>Z"),
        ("a(A->tmp1)", None, ""),
        ("t(S,T->T)", None, "S>T T>T"),
        ("w(Y->T) >> r(T->X)", None, "T>X Y>T"),
        ("w(Y->T) >> r(T->X)", ALL, "Y>X"),
        ("[w1(A->tmp), w2(B->tmp)] >> r(tmp->Z)", None, "A>Z B>Z"),
        ("s() >> w(A->Z) >> t()", None, "A>Z"),
        ("w(A->B) >> chk(B->)", None, "A>B"),
        ("load(A->B) >> audit(->L)", None, "A>L A>B".replace("A>L A>B", "A>B A>L")),
        ("load(A->B) >> audit(->L ! >L)", None, "A>B"),
        ("r(T->X); w(Y->T)", ALL, "T>X Y>T"),
        ("r(T->X) >> w(Y->T)", ALL, "T>X Y>T"),
    ],
)
def test_pairs_follow_from_the_shape_of_the_dag(sketch, options, pairs):
    assert declared(draw(sketch), options) == pairs


def test_using_a_tasks_result_makes_the_order_edge_carry_data():
    workflow = draw("t1(A->B) >> t2(C->D)", t2={"xcom": ("t1",)})
    assert declared(workflow) == "A>B A>D C>D"
    pair = next(p for p in run_lineage(workflow).derivation.pairs if (p.source.name, p.target.name) == ("A", "D"))
    assert "xcom" in pair.evidence
    assert pair.path == ("t1", "t2")


def test_an_output_that_does_not_inherit_takes_only_what_its_task_reads():
    workflow = draw("load(A->B) >> audit()", audit={"writes": (Use(ds("L"), inherit=False),)})
    assert declared(workflow) == "A>B"


def test_named_pairs_are_whole_and_outputs_beside_them_get_no_product():
    workflow = draw("plan(A,B->) >> load(A,B->C,D,E ! A>C, B>D)", load={"xcom": ("plan",)})
    assert declared(workflow) == "A>C A>E B>D B>E"
    assert declared(draw("load(A,B->C,D,E ! A>C, B>D)")) == "A>C B>D"


def test_named_pairs_stay_apart_through_a_temporary_dataset():
    assert declared(draw("a(A,B->tmp1,tmp2 ! A>tmp1, B>tmp2) >> [b(tmp1->X), c(tmp2->Y)]")) == "A>X B>Y"


def test_mapped_instances_with_their_own_datasets_are_never_crossed():
    workflow = Workflow(tasks=(TaskSpec(task_id="t", mapped=True),))
    reports = [TaskIo(task_id="t", map_index=i, reads=uses(f"K{i}"), writes=uses(f"H{i}")) for i in (0, 1)]
    assert observed(workflow, facts(t__0="success", t__1="success"), *reports) == "K0>H0 K1>H1"


def _two_mapped(elementwise: bool):
    spec = TaskSpec(task_id="l", mapped=True, upstream=("x",), xcom=("x",), elementwise=("x",) if elementwise else ())
    workflow = Workflow(tasks=(TaskSpec(task_id="x", mapped=True), spec))
    reports = [TaskIo(task_id="x", map_index=i, reads=uses(f"K{i}")) for i in (0, 1)]
    reports += [TaskIo(task_id="l", map_index=i, writes=uses(f"H{i}")) for i in (0, 1)]
    return workflow, facts(x__0="success", x__1="success", l__0="success", l__1="success"), reports


def test_expanding_over_a_mapped_task_keeps_element_with_element():
    workflow, run, reports = _two_mapped(elementwise=True)
    assert observed(workflow, run, *reports) == "K0>H0 K1>H1"


def test_waiting_for_a_whole_mapped_task_crosses_its_instances_by_order():
    workflow, run, reports = _two_mapped(elementwise=False)
    workflow = replace(workflow, tasks=(workflow.tasks[0], replace(workflow.tasks[1], xcom=())))
    found = run_lineage(workflow, run, reports)
    assert [f"{p.source.name}>{p.target.name}" for p in found.derivation.pairs] == ["K0>H0", "K0>H1", "K1>H0", "K1>H1"]
    assert all("order" in pair.evidence and pair.path == ("x", "l") for pair in found.derivation.pairs)


def test_mapping_over_nothing_leaves_the_declared_pair_skipped():
    workflow = draw("t(A->B)", t={"mapped": True})
    run = facts(t="skipped")
    assert observed(workflow, run) == ""
    assert states(workflow, run) == {"A>B": "skipped"}


def test_a_branch_not_taken_is_declared_and_skipped():
    workflow, run = (
        draw("e(A->) >> br() >> [y(->Y), n(->N)]"),
        facts(e="success", br="success", y="success", n="skipped"),
    )
    assert declared(workflow, None, run) == "A>N A>Y"
    assert observed(workflow, run) == "A>Y"
    assert states(workflow, run) == {"A>Y": "written", "A>N": "skipped"}


def test_a_join_takes_only_what_came_over_live_branches():
    workflow = draw("e(A->) >> [p(), q(B->)] >> j(->Z)")
    run = facts(e="success", p="success", q="skipped", j="success")
    assert declared(workflow, None, run) == "A>Z B>Z"
    assert observed(workflow, run) == "A>Z"
    assert states(workflow, run) == {"A>Z": "written", "B>Z": "skipped"}


def test_a_failed_writer_leaves_its_pairs_failed():
    workflow, run = draw("t1(A->B) >> t2(C->D) >> t3(->E)"), facts(t1="success", t2="failed", t3="upstream_failed")
    assert observed(workflow, run) == "A>B"
    assert states(workflow, run) == {"A>B": "written", "C>D": "failed", "C>E": "upstream_failed"}


def test_the_last_attempt_counts_and_attempts_are_told():
    workflow, run = draw("t()"), facts(t="success/2")
    first = TaskIo(task_id="t", try_number=1, state="failed", reads=uses("A"), writes=uses("B"))
    second = TaskIo(task_id="t", try_number=2, state="success", reads=uses("C"), writes=uses("D"))
    for reports in ([first, second], [second, first], [second, first, second]):
        found = run_lineage(workflow, run, reports)
        assert [(p.source.name, p.target.name, p.state) for p in found.derivation.pairs] == [("C", "D", "written")]
        assert found.attempts == 2


def test_task_groups_change_nothing_but_the_group_path():
    flat = draw("e(A->) >> t() >> l(->Z)")
    grouped = draw("e(A->) >> t() >> l(->Z)", t={"group": "outer.inner"})
    assert declared(flat) == declared(grouped) == "A>Z"


def test_an_alias_is_unresolved_until_the_run_tells_what_it_stood_for():
    workflow = draw("e(A->) >> w()", w={"alias_writes": ("alias",)})
    assert declared(workflow) == ""
    assert [(p.source.name, p.target, p.state) for p in run_lineage(workflow).unresolved] == [
        ("A", DatasetId("asset-alias", "alias"), "unresolved")
    ]
    run = RunFacts(
        states={("e", -1): ("success", 1), ("w", -1): ("success", 1)}, aliases={"alias": (ds("P1"), ds("P2"))}
    )
    assert observed(workflow, run) == "A>P1 A>P2"
    assert run_lineage(workflow, run).unresolved == ()


def test_an_alias_among_the_inlets_stands_for_the_datasets_of_its_events():
    workflow = draw("r(->Z)", r={"alias_reads": ("alias",)})
    assert declared(workflow, None, RunFacts(aliases={"alias": (ds("P"),)})) == "P>Z"
    consumed = RunFacts(aliases={"alias": (ds("P"),)}, inlet_aliases={"alias": (ds("Q"),)})
    assert declared(workflow, None, consumed) == "Q>Z"


def test_a_root_task_without_inputs_inherits_what_triggered_the_run():
    workflow = draw("t(->Z)", schedule="S,S2")
    found = run_lineage(workflow, RunFacts(triggers=(ds("S"),)))
    assert [(p.source.name, p.target.name, p.evidence) for p in found.derivation.pairs] == [
        ("S", "Z", ("declared", "schedule"))
    ]
    assert declared(workflow) == "S>Z S2>Z"
    assert declared(workflow, Options(schedule_inputs=False)) == ""
    assert declared(draw("t(A->Z) >> u(->Y)", schedule="S")) == "A>Y A>Z"


def test_a_chain_of_5000_tasks_gives_one_pair_without_recursion():
    chain = " >> ".join(["a(A->)", *(f"t{i}()" for i in range(4998)), "z(->Z)"])
    found = run_lineage(draw(chain))
    assert [(p.source.name, p.target.name) for p in found.derivation.pairs] == [("A", "Z")]
    assert len(found.derivation.pairs[0].path) == 5000


def test_more_pairs_than_the_limit_are_told_as_inputs_and_outputs():
    sources = ", ".join(f"r{i}(S{i}->)" for i in range(300))
    targets = ", ".join(f"w{i}(->T{i})" for i in range(300))
    found = run_lineage(draw(f"[{sources}] >> j() >> [{targets}]")).derivation
    assert found.compressed
    assert found.count == 90_000
    assert (found.pairs, len(found.inputs), len(found.outputs)) == ((), 300, 300)


def test_inputs_and_outputs_hold_what_is_in_no_pair_too():
    found = run_lineage(draw("w(A->B) >> chk(B->); gen(->C)")).derivation
    assert [d.name for d in found.inputs] == ["A", "B"]
    assert [d.name for d in found.outputs] == ["B", "C"]


def test_an_unrendered_template_names_no_target():
    found = run_lineage(draw("t(A->)", t={"writes": (Use(ds("data/{{ ds_nodash }}")), Use(ds("B")))})).derivation
    assert [p.target.name for p in found.pairs] == ["B"]
    assert [d.name for d in found.refused] == ["data/{{ ds_nodash }}"]


def test_instances_are_counted_and_ten_are_named():
    workflow = draw("t(A->B)", t={"mapped": True})
    run = facts(**{f"t__{i}": "success" if i % 2 else "failed" for i in range(40)})
    pair = run_lineage(workflow, run).derivation.pairs[0]
    assert (pair.state, pair.instances, pair.samples) == ("written", 20, tuple(range(1, 21, 2)))


def test_removed_instances_are_no_part_of_the_run():
    workflow = Workflow(tasks=(TaskSpec(task_id="t", mapped=True),))
    run = facts(t__0="success", t__1="removed")
    reports = [TaskIo(task_id="t", map_index=i, reads=uses(f"K{i}"), writes=uses(f"H{i}")) for i in (0, 1)]
    assert declared(workflow, None, run, *reports) == "K0>H0"


def test_a_named_pair_without_work_in_a_run_is_skipped_not_written():
    workflow = draw("t(A,B->C,D ! A>C, B>D)")
    report = TaskIo(task_id="t", explicit=explicit("A>C"))
    assert states(workflow, facts(t="success"), report) == {"A>C": "written", "B>D": "skipped"}


def test_evidence_is_the_union_of_read_write_and_way():
    workflow = draw("e(A->) >> w()")
    report = TaskIo(task_id="w", writes=(Use(ds("Z"), Evidence.HOOK),))
    pair = run_lineage(workflow, facts(e="success", w="success"), [report]).derivation.pairs[0]
    assert pair.evidence == ("declared", "hook", "order")


def test_a_task_that_died_unheard_is_named():
    report = TaskIo(task_id="t", state="failed", complete=False)
    assert run_lineage(draw("t(A->B)"), facts(t="failed"), [report]).incomplete == ("t",)


def test_a_circle_is_refused_with_its_tasks():
    with pytest.raises(LineageError, match="circle.*a"):
        run_lineage(draw("a() >> b() >> a"))


def test_an_unknown_profile_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="default, yelp"):
        Options.profile("spark")


class TestColumns:
    def edge(self, source, target, **fields):
        (s, sf), (t, tf) = source.split("."), target.split(".")
        return ColumnEdge(ds(s), sf, ds(t), tf, **fields)

    def found(self, *edges, sketch="a(A->tmp) >> b(tmp->Z)"):
        workflow = draw(sketch, a={"columns": edges[:1]}, b={"columns": edges[1:]})
        return run_lineage(workflow).columns

    def test_identity_through_a_temporary_dataset_stays_identity(self):
        assert self.found(self.edge("A.x", "tmp.y"), self.edge("tmp.y", "Z.z")) == (self.edge("A.x", "Z.z"),)

    def test_a_filter_behind_an_aggregation_is_indirect(self):
        composed = self.found(
            self.edge("A.x", "tmp.y", subtype="AGGREGATION"),
            self.edge("tmp.y", "Z.*", direct=False, subtype="FILTER", masking=True),
        )
        assert composed == (self.edge("A.x", "Z.*", direct=False, subtype="FILTER", masking=True),)

    def test_a_filter_on_every_field_reaches_the_field_that_is_read(self):
        composed = self.found(self.edge("A.x", "tmp.*", direct=False, subtype="FILTER"), self.edge("tmp.y", "Z.z"))
        assert composed == (self.edge("A.x", "Z.z", direct=False, subtype="FILTER"),)

    def test_an_unmapped_column_gives_no_edge_and_the_pair_stays(self):
        assert self.found(self.edge("A.x", "tmp.other"), self.edge("tmp.y", "Z.z")) == ()
        assert declared(draw("a(A->tmp) >> b(tmp->Z)")) == "A>Z"

    def test_columns_of_a_pair_that_is_not_known_are_left_out(self):
        assert self.found(self.edge("B.x", "C.y"), sketch="a(A->B) >> b(B->Z)") == ()

"""The four steps of a run: plan, extract (mapped), publish, gate.

What they hand to each other through XCom (ids and totals; nothing is decided by it, the commit log decides):

- `plan`: one item per mapped task, `{"plan", "path", "task", "label", "topics", "partitions", "offsets"}`; `[]` if
  there is nothing to read. Under the key `plan`: `{"plan", "path", "kind", "tasks", "held", "dry_run"}`.
- `extract`: `{"plan", "task", "k", "outcomes": {topic: outcome}, "counts": {…}, "files", "seconds"}`.
- `publish`: `{"plan", "commit", "recovered": [n, …], "announced": [n, …], "probe", "counts": {…}, "files"}`; None
  without a plan. `recovered` are commits that it did not make itself: an earlier attempt died before it could tell of
  them; what they count is in the totals if they are of the same plan.
- `gate`: nothing; its failure names what was held back, and the next step.

`counts` are the terms of the coverage equation in Kafka records, and `records_out`, `bytes_in`, `null_values`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.configuration import conf

from airflow_kafka_hdfs.exceptions import ConfigError, HeldBackError, PlanEndedError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.finishing import Finished, finish
from airflow_kafka_hdfs.ingest.judging import judge
from airflow_kafka_hdfs.ingest.plan_book import load_plan
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.records import Commit, Manifest, sum_counts
from airflow_kafka_hdfs.ingest.selection import TopicFilter, Topics, topics_of
from airflow_kafka_hdfs.operators.announcing import confirm_events, mirror_watermarks, replaced_partitions
from airflow_kafka_hdfs.operators.base import IngestOperator, task_id_of
from airflow_kafka_hdfs.operators.openlineage import TopicLineage, topics_promised, topics_published, topics_read
from airflow_kafka_hdfs.operators.outlets import TopicNews, needs_run_time, news_of, send
from airflow_kafka_hdfs.operators.reporting import (
    StopFlag,
    TaskStateProgress,
    Tries,
    report_extract,
    report_plan,
    report_publish,
    ways_of,
)
from airflow_kafka_hdfs.operators.requests import limits_of, request_of
from airflow_kafka_hdfs.operators.tables import commit_table, plan_table

if TYPE_CHECKING:
    from airflow.sdk import Context as AirflowContext
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

PLAN_KEY = "plan"
"""XCom key under which `plan` tells the other steps where its plan is, also when there is nothing to read."""

LONGEST_WAIT = timedelta(hours=1)
"""How long the gate waits for plans of live runs that hold ranges of this one."""


class KafkaToHdfsPlanOperator(IngestOperator):
    """Decides what the run reads and how it is shared out, and writes that down before anything is read.

    Args:
        kwargs: arguments of `JobArguments` and of Airflow's operators.

    Raises:
        ConfigError, PlanningError, StateError: nothing was changed; the text names the next step.
        KafkaUnavailableError, StoreUnavailableError: worth a retry.
    """

    def execute(self, context: AirflowContext) -> list[dict[str, Any]]:
        """One item per mapped task."""
        from airflow_kafka_hdfs.ingest.planning import make_plan
        from airflow_kafka_hdfs.operators.ports import open_sources, probe_stores, task_context

        self._refuse_twins()
        request = replace(request_of(context), elsewhere=self._topics_elsewhere())
        config = self.config(limits=limits_of(context["params"]), max_map_length=conf.getint("core", "max_map_length"))
        ctx = task_context(config, self.run_ref(context), context)
        if not request.dry_run:
            probe_stores(ctx)
        started = ctx.clock.monotonic()
        planned = make_plan(ctx, open_sources(config), config, request)
        plan = planned.plan
        self.log.info("%s%s", "goes on with " if planned.reused else "", plan_table(plan, whole=plan.dry_run))
        for note in planned.notes:
            self.log.warning("%s", note)
        for incident in planned.incidents:
            self.log.warning("%s", incident)
        for refusal in planned.refusals:
            self.log.error("a file of an earlier run could not be brought into place: %s", refusal)
        seconds = ctx.clock.monotonic() - started
        self.log.info("planned %d partitions in %.2f s", len(plan.entries), seconds)
        report_plan(planned, seconds)
        path = None if plan.dry_run else ctx.log.paths.plan(plan.key, plan.counter)
        told = {
            "plan": plan.plan,
            "path": path,
            "kind": plan.kind.value,
            "tasks": len(plan.tasks),
            "held": sorted(item.topic for item in plan.held),
            "dry_run": plan.dry_run,
        }
        context["ti"].xcom_push(key=PLAN_KEY, value=told)
        return [] if plan.dry_run else _work_units(plan, path)

    def _others(self) -> list[KafkaToHdfsPlanOperator]:
        """The same step of the DAG's other ingestions."""
        steps = (task for task in self.dag.tasks if isinstance(task, KafkaToHdfsPlanOperator))
        return [task for task in steps if task.task_id != self.task_id]

    def _topics_elsewhere(self) -> tuple[Topics | None, ...]:
        """What the other ingestions read, as far as this one can know; see `PlanRequest.elsewhere`."""
        mine = self.fixed.values.get("kafka_conn_id")
        found: list[Topics | None] = []
        for task in self._others():
            given: Any = task.topics
            is_here = task.fixed.values.get("kafka_conn_id") == mine
            late = needs_run_time(given) and not (isinstance(given, TopicFilter) and is_here)
            found.append(None if late else topics_of(given))
        return tuple(found)

    def _refuse_twins(self) -> None:
        """Two ingestions of one DAG with one pipeline would take each other's plans for their own."""
        for task in self._others():
            if task.pipeline == self.pipeline:
                raise ConfigError(
                    "pipeline_id",
                    self.pipeline,
                    "a name of its own for each ingestion of a DAG",
                    f"{task.task_id} has it too; put each ingestion into a task group, or name it",
                )


class KafkaToHdfsExtractOperator(IngestOperator):
    """Reads the work of one mapped task into staged files: `.partial(…).expand(work_unit=plan.output)`.

    Args:
        work_unit: one item of what `plan` returned.
        kwargs: arguments of `JobArguments` and of Airflow's operators.

    Raises:
        HeldBackError: a unit failed for its own reason (bad data, no schema, denied); the others were read to their
            ends. Not retried.
        PlanEndedError: the plan was ended, or what failed here went back to the log. Not retried.
        KafkaUnavailableError, RegistryUnavailableError, StoreUnavailableError: worth a retry, which reads again.
    """

    template_fields = (*IngestOperator.template_fields, "work_unit")
    template_fields_renderers = {**IngestOperator.template_fields_renderers, "work_unit": "json"}

    default_map_index_template = "{{ task.work_unit['label'] }}"
    """Made by `plan`, at most 200 characters: PostgreSQL takes 250, and a longer one would fail a finished task."""

    def __init__(self, *, work_unit: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.work_unit = work_unit
        self._stop = StopFlag()
        self._read: tuple[Manifest | None, str] = (None, "")  # and the cluster

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """As Airflow's `partial`, with the label of a work unit as the default of `map_index_template`."""
        kwargs.setdefault("map_index_template", cls.default_map_index_template)
        return super().partial(**kwargs)

    def execute(self, context: AirflowContext) -> dict[str, Any]:
        """What became of the task's units."""
        from airflow_kafka_hdfs.ingest.datum.tiers import DIRECT, pick
        from airflow_kafka_hdfs.ingest.extraction import ExtractOptions, extract, is_long_settled
        from airflow_kafka_hdfs.operators.ports import open_codecs, open_kafka, open_sources, task_context

        unit = self.work_unit
        config = self.config(limits=limits_of(context["params"]))
        ctx = task_context(config, self.run_ref(context), context)
        plan = load_plan(ctx, unit["path"])
        if plan is None and is_long_settled(ctx, unit["plan"], unit["task"]):
            self.log.info("plan %s is settled and was cleaned away: nothing is left to do", unit["plan"])
            return {"plan": unit["plan"], "task": unit["task"], **_told_of(None)}
        if plan is None:
            raise _no_plan(ctx, unit["path"])
        started = ctx.clock.monotonic()
        states = context.get("task_state_store")
        tries = Tries(states, plan.plan, unit["task"])
        died = tries.died_in()
        kafka = open_kafka(config)
        tier = pick(conf.get("kafka_hdfs", "tiers"), below=died, direct_fault=kafka.direct_fault)
        way = "reference" if tier is None else tier.name
        if died:
            self.log.warning("an attempt at this task died without a word in tier %s: going on with %s", died, way)
        options = ExtractOptions.of(
            config,
            codecs=open_codecs(),
            stop=self._stop,
            progress=TaskStateProgress(states, plan.plan, unit["task"]),
            tier=tier,
        )
        seconds = conf.getfloat("kafka_hdfs", "progress_interval")
        options = replace(options, reading=replace(options.reading, progress_seconds=seconds))
        with tries.noted(way):
            done = extract(ctx, open_sources(config, kafka, direct=way == DIRECT), plan, unit["task"], options)
        report_extract(ctx.pipeline, ctx.clock.monotonic() - started)
        self._read = done.manifest, config.cluster or config.kafka_conn_id
        result = {"plan": plan.plan, "task": unit["task"], **_told_of(done.manifest)}
        if done.faults:
            # A task that fails leaves no return value by itself; people and dashboards want the totals all the same.
            context["ti"].xcom_push(key="return_value", value=result)
            raise HeldBackError("\n".join(done.faults))
        return result

    def openlineage_topics(self) -> list[TopicLineage]:
        """The topics that were read; what it staged is no dataset yet."""
        return topics_read(*self._read)  # not sooner: the first name of an asset imports much of Airflow

    def on_kill(self) -> None:
        """Called by Airflow within its five seconds of grace; the reading loop looks at the flag every second."""
        self._stop.set()


class KafkaToHdfsPublishOperator(IngestOperator):
    """Commits what the publish policy allows, brings files into place, and tells Airflow which datasets changed.

    It runs when everything before it has ended, however it ended, and fails only if it could not do its work: the gate
    judges. Its outlets are all datasets of the ingestion; when it has run, events go out for those that changed.
    `lineage_pairs` tells lineage which topic feeds which dataset: all that the DAG file names, and when it has run
    those that changed, whenever their names became known.

    Args:
        plan: the plan operator, or its output.
        results: the mapped extract operator, or its output; waited for, not read: manifests tell what was staged.
        kwargs: arguments of `JobArguments` and of Airflow's operators.

    Raises:
        PlanEndedError, CorruptStateError: the text names the next step.
        StoreUnavailableError: worth a retry, which goes on where this attempt stopped.
    """

    def __init__(self, *, plan: Any, results: Any = None, trigger_rule: str = "all_done", **kwargs: Any) -> None:
        super().__init__(trigger_rule=trigger_rule, **kwargs)
        self.plan_task_id = task_id_of(plan, "plan")
        self.set_upstream([step for step in (plan, results) if step is not None])
        self.job = self.job_assets()
        self.inlets = [*self.inlets, *self.job.inlets()]
        self.outlets = [*self.outlets, *self.job.outlets()]
        self.lineage_pairs = self.job.lineage_pairs(self.job.topics or ())
        self._topics_published: list[TopicLineage] | None = None

    @classmethod
    def get_serialized_fields(cls) -> frozenset[str]:
        """Lineage reads the structure of a DAG from its serialized form, so the pairs go there too."""
        fields: frozenset[str] = super().get_serialized_fields()  # type: ignore[no-untyped-call]  # Airflow leaves it so
        return fields | {"lineage_pairs"}

    def execute(self, context: AirflowContext) -> dict[str, Any] | None:
        """What was committed."""
        from airflow_kafka_hdfs.operators.ports import task_context

        self.outlets = [item for item in self.outlets if item not in self.job.outlets()]
        self.lineage_pairs = self.job.lineage_pairs(())
        self._topics_published = []
        planned = context["ti"].xcom_pull(task_ids=self.plan_task_id, key=PLAN_KEY)
        if planned is None or planned["dry_run"]:
            why = "dry run" if planned else f"{self.plan_task_id} made no plan"
            self.log.info("%s: there is nothing to publish", why)
            return None
        config = self.config()
        ctx = task_context(config, self.run_ref(context), context)
        plan = stored_plan(ctx, planned["path"])
        started = ctx.clock.monotonic()
        done = finish(ctx, plan, config.commit_policy(_topics(plan)), grace=config.gc_grace)
        for commit in done.own:
            found = "" if commit is done.record else "found, made by an earlier attempt: "
            self.log.info("%s%s", found, commit_table(commit))
        for refusal in done.refusals:
            self.log.error("a file could not be brought into place: %s", refusal)
        news = self._news(ctx, done)
        probe = self._send(context, news)
        self._topics_published = topics_published(self.job, news, config, plan)
        mirror_watermarks(context, self.job, config, done)
        report_publish(plan, done, ctx.clock.monotonic() - started)
        told = {commit.number for commit in (*done.recovered, *done.own)}
        return {
            "plan": plan.plan,
            "commit": done.own[-1].number if done.own else None,
            "recovered": sorted(told - ({done.record.number} if done.record else set())),
            "announced": [commit.number for commit in done.to_announce],
            "probe": probe,
            **_totals(done.own),
        }

    def openlineage_topics(self) -> list[TopicLineage]:
        """What was published; before it ran, what the DAG file promises."""
        return topics_promised(self.job) if self._topics_published is None else self._topics_published

    @staticmethod
    def _news(ctx: Context, done: Finished) -> list[TopicNews]:
        replaced = replaced_partitions(ctx, done.to_announce)
        return [item for commit in done.to_announce for item in news_of(commit, replaced)]

    def _send(self, context: AirflowContext, news: list[TopicNews]) -> dict[str, Any] | None:
        """Fill in the events that are owed; Airflow stores them together with the task's success."""
        sent = send(context["outlet_events"], self.job, news)
        for topic in sent.unknown:
            self.log.warning("topic %s changed, but is no topic of this DAG any more: no event can be sent", topic)
        self.outlets = [*self.outlets, *sent.outlets]
        self.lineage_pairs = self.job.lineage_pairs(item.topic for item in news)
        return sent.probe


class KafkaToHdfsGateOperator(IngestOperator, BaseSensorOperator):
    """Turns the run red if anything that it planned is held back or undecided, and says why and what to do.

    It also notes which commits' events are known to be stored, so that no later run sends them again. Where an interval
    run left ranges to the plans of live runs, it waits for their commits without holding a worker slot.

    Args:
        plan: the plan operator, or its output.
        publish: the publish operator, or its output.
        longest_wait: for plans of live runs.
        poke_interval: between two looks while it waits; by default `[kafka_hdfs] gate_poke_interval`.
        kwargs: arguments of `JobArguments`, of Airflow's sensors and of its operators.

    Raises:
        HeldBackError: topics, reasons, next steps. Not retried.
        StoreUnavailableError: worth a retry.
    """

    def __init__(
        self,
        *,
        plan: Any,
        publish: Any,
        longest_wait: timedelta = LONGEST_WAIT,
        trigger_rule: str = "all_done",
        mode: str = "reschedule",
        poke_interval: float | timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("timeout", 2 * longest_wait)  # the judgement below is to come first
        if poke_interval is None:
            poke_interval = conf.getfloat("kafka_hdfs", "gate_poke_interval")
        super().__init__(trigger_rule=trigger_rule, mode=mode, poke_interval=poke_interval, **kwargs)
        self.plan_task_id = task_id_of(plan, "plan")
        self.publish_task_id = task_id_of(publish, "publish")
        self.longest_wait = longest_wait
        self.set_upstream([plan, publish])

    def poke(self, context: AirflowContext) -> bool:
        """True for a green run, False while it waits."""
        from airflow_kafka_hdfs.operators.ports import task_context

        ti = context["ti"]
        told = ti.xcom_pull(task_ids=self.plan_task_id, key=PLAN_KEY)
        faults = self._failed_steps(context)
        if told is None:
            raise HeldBackError(_verdict(self.pipeline, faults or [f"{self.plan_task_id} made no plan"]))
        if told["dry_run"]:
            return True
        ctx = task_context(self.config(), self.run_ref(context), context)
        confirm_events(ctx, ti.xcom_pull(task_ids=self.publish_task_id))
        since = ti.get_first_reschedule_date(context) or datetime.now(UTC)
        verdict = judge(ctx, stored_plan(ctx, told["path"]), wait=datetime.now(UTC) - since < self.longest_wait)
        if verdict.waiting_for:
            self.log.info("waiting for plans of live runs: %s", ", ".join(verdict.waiting_for))
            return False
        if faults or not verdict.is_green:
            raise HeldBackError(_verdict(ctx.pipeline, [*faults, *verdict.faults]))
        return True

    def _failed_steps(self, context: AirflowContext) -> list[str]:
        """Of plan and publish; failed extracts are judged by what the log says of their offsets."""
        ti = context["ti"]
        steps = [self.plan_task_id, self.publish_task_id]
        states = ti.get_task_states(dag_id=self.dag_id, task_ids=steps, run_ids=[ti.run_id]).get(ti.run_id, {})
        bad = [(step, states.get(step)) for step in steps if states.get(step) != "success"]
        return [f"{step} ended as {state}: see its log, then clear it with everything after it" for step, state in bad]


def stored_plan(ctx: Context, path: str) -> Plan:
    """The plan that `plan` wrote down.

    Raises:
        PlanEndedError: it is settled, and its record was cleaned away.
    """
    plan = load_plan(ctx, path)
    if plan is None:
        raise _no_plan(ctx, path)
    return plan


def _no_plan(ctx: Context, path: str) -> PlanEndedError:
    return PlanEndedError(
        f"the plan at {path} of pipeline {ctx.pipeline} is settled and was cleaned away; "
        "clear `plan` with everything after it to plan anew"
    )


def _work_units(plan: Plan, path: str | None) -> list[dict[str, Any]]:
    return [
        {
            "plan": plan.plan,
            "path": path,
            "task": task.index,
            "label": task.label,
            "topics": len(task.units),
            "partitions": len({work.key for unit in task.units for work in unit.work_units}),
            "offsets": sum(len(work) for unit in task.units for work in unit.work_units),
        }
        for task in plan.tasks
    ]


def _told_of(manifest: Manifest | None) -> dict[str, Any]:
    units = manifest.units if manifest is not None else ()
    return {
        "k": manifest.k if manifest is not None else None,
        "outcomes": {unit.topic: unit.outcome.value for unit in units},
        "counts": wire.to_plain(sum_counts(unit.counts for unit in units)),
        "files": sum(not entry.quarantine for unit in units for entry in unit.files),
        "seconds": manifest.seconds if manifest is not None else 0.0,
        "ways": ways_of(manifest.metrics) if manifest is not None else {},
    }


def _totals(commits: Iterable[Commit]) -> dict[str, Any]:
    told = list(commits)
    return {
        "counts": wire.to_plain(sum_counts(commit.counts for commit in told)),
        "files": sum(not entry.quarantine for commit in told for entry in commit.files),
    }


def _topics(plan: Plan) -> list[str]:
    return sorted({topic for _, topic in plan.units})


def _verdict(pipeline: str, faults: list[str]) -> str:
    return "\n".join([f"pipeline {pipeline} is not complete:", *(f"- {fault}" for fault in faults)])

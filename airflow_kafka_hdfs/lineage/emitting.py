"""From what is known of a finished run to its messages, and from messages to Kafka or the spool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import KafkaHdfsError
from airflow_kafka_hdfs.lineage.events import (
    DatasetDetail,
    EdgeMessage,
    Envelope,
    Message,
    RunMessage,
    message_key,
)
from airflow_kafka_hdfs.lineage.expansion import run_lineage
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.message_json import encode
from airflow_kafka_hdfs.lineage.openlineage_making import About, Exchanged, encode_event, run_event, run_id
from airflow_kafka_hdfs.lineage.pairs import Options, Pair
from airflow_kafka_hdfs.lineage.workflow import RunFacts, Workflow
from airflow_kafka_hdfs.ports.lineage import LetterBox, PairState, Spool

GRAPH_EVERY = 64 * 1024
"""Graphs above this size are sent once a day per DAG; other runs name their hash."""


def run_messages(
    envelope: Envelope, workflow: Workflow, facts: RunFacts, options: Options, *, with_graph: bool = True
) -> list[Message]:
    """One message per pair, then one of the run.

    Args:
        envelope: job, run and versions.
        workflow: the structure that the run had.
        facts: how its task instances ended.
        options: how pairs are derived.
        with_graph: whether the run message carries the structure or only names it.

    Raises:
        LineageError: the tasks wait for each other in a circle.
    """
    found = run_lineage(workflow, facts, (), options)
    messages: list[Message] = [
        EdgeMessage(
            envelope=envelope,
            source=_detail(pair.source, workflow),
            target=_detail(pair.target, workflow),
            state=pair.state,
            evidence=pair.evidence,
            flow=options.flow,
            path=pair.path,
            instances=pair.instances,
            declared=_ends(pair) in found.declared,
            columns=tuple(edge for edge in found.columns if (edge.source, edge.target) == _ends(pair)),
        )
        for pair in (*found.derivation.pairs, *found.unresolved)
    ]
    messages.append(
        RunMessage(
            envelope=envelope,
            structure_hash=workflow.structure_hash,
            graph=workflow if with_graph else None,
            facts=facts,
            options=options,
            pairs=found.derivation.count,
            compressed=found.derivation.compressed,
        )
    )
    return messages


def openlineage_event(
    envelope: Envelope, workflow: Workflow, facts: RunFacts, options: Options, namespace: str
) -> bytes:
    """One event of OpenLineage for a finished run: what it wrote, with its pairs as the `lineage` job facet.

    Args:
        envelope, workflow, facts, options: as `run_messages`.
        namespace: of the deployment's jobs in OpenLineage.

    Raises:
        LineageError: the tasks wait for each other in a circle.
    """
    found = run_lineage(workflow, facts, (), options)
    pairs = frozenset(_ends(pair) for pair in found.derivation.pairs if pair.state is PairState.WRITTEN)
    whole = found.derivation.compressed
    job, run = envelope.job, envelope.run
    done = Exchanged(
        inputs=found.derivation.inputs if whole else tuple(sorted({source for source, _ in pairs})),
        outputs=found.derivation.outputs if whole else tuple(sorted({target for _, target in pairs})),
        pairs=pairs,
        columns=tuple(edge for edge in found.columns if (edge.source, edge.target) in pairs),
    )
    start, end = run.interval_start, run.interval_end
    event = run_event(
        About(
            namespace=namespace, name=job.dag_id, description=job.description[:2_000], owners=job.owners, tags=job.tags
        ),
        done,
        run=run_id(namespace, job.dag_id, run.clear_number, run.logical_date or run.run_after),
        outcome=run.outcome,
        at=run.ended_at or run.run_after,
        nominal=(start, end) if start is not None and end is not None else None,
        engine=envelope.versions.airflow,
    )
    return encode_event(event)


def _ends(pair: Pair) -> tuple[DatasetId, DatasetId]:
    return pair.source, pair.target


def _detail(dataset: DatasetId, workflow: Workflow) -> DatasetDetail:
    return DatasetDetail(dataset=dataset, temporary=dataset in workflow.temporary)


@dataclass(frozen=True, slots=True)
class Sent:
    """Where messages went."""

    delivered: int
    spooled: int
    dropped: int

    @property
    def kept(self) -> bool:
        """Whether every message is delivered or waits in the spool."""
        return self.dropped == 0


def deliver(
    messages: Iterable[Message],
    box: LetterBox | None,
    spool: Spool,
    topic: str,
    timeout: float,
    others: Iterable[tuple[str, bytes, bytes]] = (),
) -> Sent:
    """Send messages; what Kafka does not take in time waits in the spool.

    A message may be delivered and spooled as well, which does no harm: its id is the same.

    Args:
        messages: to send.
        box: None if no producer could be made.
        spool: where messages wait.
        topic: the lineage topic.
        timeout: seconds for delivery.
        others: (topic, key, value) of what goes to other topics with them.
    """
    letters = [(topic, message_key(message.envelope), encode(message)) for message in messages]
    letters += others
    missing = len(letters)
    if box is not None:
        try:
            for where, key, value in letters:
                box.send(where, key, value)
            missing = box.flush(timeout)
        except KafkaHdfsError:
            missing = len(letters)
    if missing == 0:
        return Sent(len(letters), 0, 0)
    # Which ones are missing is not known, so all of them wait.
    spooled = sum(spool.put(where, key, value) for where, key, value in letters)
    return Sent(len(letters) - missing, spooled, len(letters) - spooled)


def drain(box: LetterBox, spool: Spool, timeout: float, *, at_most: int = 1_000) -> int:
    """Send what waits in the spool; a batch leaves it only when all of it was delivered.

    Args:
        box: where to send.
        spool: where messages wait.
        timeout: seconds for delivery of one batch.
        at_most: messages per batch.

    Returns:
        How many were delivered.
    """
    done = 0
    while True:
        with spool.take(at_most) as batch:
            if not batch.letters:
                return done
            try:
                for topic, key, value in batch.letters:
                    box.send(topic, key, value)
                if box.flush(timeout):
                    return done
            except KafkaHdfsError:
                return done
            batch.done = True
            done += len(batch.letters)

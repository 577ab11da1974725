"""Is it still the cluster and the topic that were planned? Asked before the first read and before the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import TopicFaultError
from airflow_kafka_hdfs.ingest.plans import UnitPlan
from airflow_kafka_hdfs.ingest.reasons import UnitReason
from airflow_kafka_hdfs.ports.kafka import TopicCatalog


@dataclass(frozen=True, slots=True)
class IdentityFault:
    """Why a topic is not what was planned, or can't be asked.

    Attributes:
        reason: `topic_recreated` where another identity was seen, else the broker's fault code.
        is_other: another identity was seen: nothing that was read may count.
    """

    reason: str
    detail: str
    is_other: bool

    def error(self, topic: str) -> TopicFaultError:
        """As an error of the topic."""
        return TopicFaultError(topic, self.reason, self.detail)


def identity_faults(catalog: TopicCatalog, units: Sequence[UnitPlan]) -> dict[str, IdentityFault]:
    """Topics whose identity differs from the plan's or can't be told; the others are left out.

    Args:
        catalog: asked in two calls, however many topics there are.
        units: what is to be read.

    Raises:
        KafkaUnavailableError: no broker answered.
    """
    if not units:
        return {}
    cluster = catalog.cluster_id()
    found = catalog.describe([unit.topic for unit in units])
    faults: dict[str, IdentityFault] = {}
    for unit in units:
        info = found[unit.topic]
        clusters = {work.key.cluster_id for work in unit.work_units} - {cluster, ""}
        topic_ids = {work.key.topic_id for work in unit.work_units} - {info.topic_id, ""}
        if clusters:
            detail = f"the brokers belong to cluster {cluster}, the plan was made on {', '.join(sorted(clusters))}"
            faults[unit.topic] = IdentityFault(UnitReason.TOPIC_RECREATED, f"{detail}; nothing was read", is_other=True)
        elif info.fault is not None:
            code = info.fault.partition(":")[0]
            faults[unit.topic] = IdentityFault(code, f"the broker says {info.fault}", is_other=False)
        elif topic_ids:
            detail = f"the topic has id {info.topic_id}, the plan was made for {', '.join(sorted(topic_ids))}"
            hint = "nothing was read; the next plan follows on_topic_recreated"
            faults[unit.topic] = IdentityFault(UnitReason.TOPIC_RECREATED, f"{detail}; {hint}", is_other=True)
    return faults

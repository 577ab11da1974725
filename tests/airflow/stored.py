"""DAGs in the metadata database, and messages in a topic."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk import DAG

from tests.fakes.lineage import MemoryTopic


def store_dag(dag: DAG, bundle: str = "testing") -> None:
    """Write a DAG to the metadata database, as the DAG processor would."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    with create_session() as session:
        session.merge(DagBundleModel(name=bundle))
        session.flush()
        lazy = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db(bundle, None, [lazy], session=session)
        SerializedDagModel.write_dag(lazy, bundle_name=bundle, session=session)


def messages(topic: MemoryTopic, kind: str) -> list[Any]:
    """Messages of lineage of one type."""
    return [body for _, _, value in topic.sent if (body := json.loads(value)).get("type") == kind]

"""DAGs in the metadata database."""

from __future__ import annotations

from airflow.sdk import DAG


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

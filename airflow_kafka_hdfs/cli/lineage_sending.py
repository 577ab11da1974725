"""`airflow kafka-hdfs lineage send`: what a governance platform does not know yet."""

from __future__ import annotations

import argparse
import signal
import threading

from airflow_kafka_hdfs.cli.asking import Change, change
from airflow_kafka_hdfs.cli.lineage import told
from airflow_kafka_hdfs.cli.screen import leave


def send(args: argparse.Namespace) -> None:
    """Send once; ends with an error if the platform is away or refuses anything."""
    from airflow_kafka_hdfs.adapters.runtime import SystemClock
    from airflow_kafka_hdfs.hooks.lineage import LineageHook
    from airflow_kafka_hdfs.lineage.exchanged import Exchanges
    from airflow_kafka_hdfs.lineage.exporting import Exporter, What

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with told():
        hook = LineageHook(warehouse_conn_id=args.warehouse_conn_id)
        settings = hook.settings
        platform, warehouse = hook.platform(), hook.warehouse()
        try:
            exporter = Exporter(
                warehouse,
                platform,
                SystemClock(),
                Exchanges(instance=settings.instance, namespace=settings.namespace),
                what=What.of(args.what or settings.export_what),
                days=settings.export_days,
                tries=settings.export_tries,
            )
            due = exporter.run(stop, again=args.again, dry_run=True)
            will = [f"{due.sent} events go to {platform.name}; {due.unchanged} jobs or runs are known there"]
            if args.dry_run:
                Change(args, tuple(will)).tell(will, changed=False, **due.to_json())
                return
            made = change(args, will if due.sent else ())
            report = exporter.run(stop, again=args.again)
        finally:
            platform.close()
            warehouse.close()
        counts = report.to_json()
        lines = [", ".join(f"{name}: {count}" for name, count in counts.items())]
        made.tell(lines, changed=report.attempts > 0, platform=platform.name, **counts)
    if report.refused:
        leave(f"{report.refused} events were refused: see lineage_export.problem; --again sends them once more")

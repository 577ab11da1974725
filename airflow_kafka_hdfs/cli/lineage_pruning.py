"""`airflow kafka-hdfs lineage prune`: old runs go, what is known over all runs stays."""

from __future__ import annotations

import argparse
import signal
import threading
from datetime import timedelta

from airflow_kafka_hdfs.cli.asking import Change, change
from airflow_kafka_hdfs.cli.lineage import told
from airflow_kafka_hdfs.exceptions import ConfigError


def prune(args: argparse.Namespace) -> None:
    """Delete in short transactions; what is deleted when this is stopped stays so, and the next call goes on."""
    from airflow_kafka_hdfs.adapters.runtime import SystemClock
    from airflow_kafka_hdfs.hooks.lineage import LineageHook
    from airflow_kafka_hdfs.lineage.pruning import Pruner, age

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with told():
        hook, clock, older = LineageHook(warehouse_conn_id=args.warehouse_conn_id), SystemClock(), age(args.older_than)
        if older <= timedelta(days=hook.settings.export_days):
            days = f"{hook.settings.export_days:g}"
            raise ConfigError("--older-than", args.older_than, f"more than [kafka_hdfs_lineage] export_days, {days}d")
        warehouse = hook.warehouse()
        try:
            pruner, before = Pruner(warehouse, clock), clock.now() - older
            due = pruner.run(before, dry_run=True, stop=stop)
            will = [f"{table}: {count} rows go" for table, count in due.rows.items()]
            if will:
                will.insert(0, f"what was told before {before:%Y-%m-%d %H:%M} UTC goes from {warehouse.where}")
            if args.dry_run:
                lines = will or ["nothing is that old"]
                Change(args, tuple(will)).tell(lines, changed=False, **due.to_json())
                return
            made = change(args, will)
            if not will:
                made.tell(["nothing is that old"], changed=False, **due.to_json())
                return
            report = pruner.run(before, stop=stop)
        finally:
            warehouse.close()
        lines = [", ".join(f"{table}: {count}" for table, count in report.rows.items()) or "nothing was left"]
        made.tell(lines, changed=bool(report.rows), **report.to_json())

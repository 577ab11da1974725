"""Commands about bad records: which there are, what is in them, and taking them in once their cause is mended."""

from __future__ import annotations

import base64
from argparse import Namespace
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_kafka_hdfs.cli.asking import Change, change
from airflow_kafka_hdfs.cli.commands import told
from airflow_kafka_hdfs.cli.screen import leave, say, say_json, say_table
from airflow_kafka_hdfs.exceptions import ConfigError

if TYPE_CHECKING:
    from airflow_kafka_hdfs.ingest.quarantine_reading import BadRecord, Choice

_SHOWN = 60
"""Bytes of a value in a table."""


@told
def quarantine_list(args: Namespace) -> None:
    """Quarantine files that the log lists."""
    from airflow_kafka_hdfs.cli.addressing import context_of
    from airflow_kafka_hdfs.ingest.quarantine_reading import quarantine_files

    ctx = context_of(args)
    found = [
        (file.commit, file.entry.topic, file.entry.records, len(file.replayed), file.entry.path)
        for file in quarantine_files(ctx.log.read(since=-1))
    ]
    keys = ("commit", "topic", "records", "replayed", "path")
    if args.output == "json":
        say_json([dict(zip(keys, row, strict=True)) for row in found])
        return
    if found:
        say_table(keys, found)
    else:
        say("nothing in quarantine")


@told
def quarantine_show(args: Namespace) -> None:
    """Single bad records: where they stood, why they are bad, and what they hold."""
    from airflow_kafka_hdfs.adapters.avro import FastavroCodec
    from airflow_kafka_hdfs.cli.addressing import context_of
    from airflow_kafka_hdfs.ingest.quarantine_reading import bad_records, quarantine_files

    ctx, choice, codec = context_of(args), _choice(args), FastavroCodec()
    everything = quarantine_files(ctx.log.read(since=-1))
    files = [file for file in everything if choice.takes_file(file.entry)]
    records = (record for file in files for record in bad_records(ctx.data, codec, file, choice))
    found = list(islice(records, args.number))
    if args.output == "json":
        say_json([_plain(record) for record in found])
        return
    columns = ("record", "state", "reason", "detail", "schema", "value")
    rows = [
        (r.record.where, r.fate.value, r.reason, r.detail, r.schema_id or "-", _beginning(r.record.value))
        for r in found
    ]
    if not rows and everything:  # a misspelt topic must not look like good news
        topics = ", ".join(sorted({file.entry.topic for file in everything}))
        say(f"nothing in quarantine that was asked for; it holds records of {topics}")
        return
    if rows:
        say_table(columns, rows)
    else:
        say("nothing in quarantine")


@told
def quarantine_replay(args: Namespace) -> None:
    """Decode bad records again, with the code, schemas and settings of now, and commit what is good."""
    from airflow_kafka_hdfs.cli.addressing import config_of, context_of
    from airflow_kafka_hdfs.ingest.replaying import draft_replay, replay
    from airflow_kafka_hdfs.operators.ports import open_codecs, open_sources

    if args.dag_id is None:
        raise ConfigError("--dag-id", None, "the DAG of the pipeline: it says how records are decoded")
    ctx = context_of(args)
    config = config_of(args.dag_id, args.group_id)
    sources = open_sources(config)
    draft = draft_replay(ctx, sources, config, _choice(args))
    if not draft.names:
        Change(args, ()).tell(draft.told, changed=False, commit=None, replayed=0, files=0)
        return
    made = change(args, draft.told)
    done = replay(ctx, sources, config, open_codecs(), draft.names, args.reason)
    record = done.record
    if record is None:
        late = "somebody else replayed or replaced them meanwhile; nothing was left to do"
        made.tell([late], changed=False, commit=None, replayed=0, files=0)
        return
    made.tell(
        [
            f"commit {record.number} (replay) by {record.who or 'nobody known'}: {record.why}",
            f"{len(record.replayed)} records taken, {len(record.files)} files; the next run sends their asset events",
        ],
        commit=record.number,
        replayed=len(record.replayed),
        files=len(record.files),
        refusals=[str(refusal) for refusal in done.refusals],
    )
    if done.refusals:
        refused = "\n".join(map(str, done.refusals))
        leave(f"{refused}\nthe commit stands; mend the store, then `state recover` brings its files in")


def _choice(args: Namespace) -> Choice:
    from airflow_kafka_hdfs.ingest.quarantine_reading import Choice

    return Choice(topic=args.topic, path=args.path, reason=args.error)


def _plain(bad: BadRecord) -> dict[str, Any]:
    record = bad.record
    return {
        "path": bad.path,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "state": bad.fate.value,
        "reason": bad.reason,
        "detail": bad.detail,
        "schema_id": bad.schema_id,
        "key_base64": _base64(record.key),
        "value_base64": _base64(record.value),
        "headers": [{"key": name, "value_base64": _base64(value)} for name, value in record.headers],
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _beginning(value: bytes | None) -> str:
    if value is None:
        return "null"
    return repr(value[:_SHOWN]) + ("…" if len(value) > _SHOWN else "")

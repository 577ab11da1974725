"""Options of `[kafka_hdfs_lineage]`: read once, checked, with the names that the errors tell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.lineage.identity import Naming
from airflow_kafka_hdfs.lineage.pairs import Flow, Intermediates, Options

SECTION = "kafka_hdfs_lineage"
LEAST_DAYS = 31
"""For how many days runs are kept at least: pages and facts look at the last 30."""
T = TypeVar("T", int, float)
C = TypeVar("C", Flow, Intermediates)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageSettings:
    """How lineage works in this deployment.

    Attributes:
        enabled: whether anything is registered at all.
        instance: name of this Airflow deployment; part of every job's identity, never change it.
        kafka_conn_id: Airflow connection of type `kafka`; used where `kafka_config` is empty.
        kafka_config: client settings, for deployments that must not look a connection up.
        topic, dead_letter_topic, openlineage_topic: names; the last one may be empty.
        warehouse: SQLAlchemy URL; empty for SQLite in AIRFLOW_HOME.
        warehouse_conn_id: Airflow connection to use instead of a URL.
        spool_dir: where messages wait while Kafka is away; empty for a folder in AIRFLOW_HOME.
        spool_max_bytes: bytes per process that may wait there.
        queue_size: runs that may wait for the emitter.
        task_deadline: seconds that a task may spend at its end on sending what it read and wrote.
        catch_up_interval: seconds between looks for runs that were never sent.
        catch_up_hours: how far back the first look goes.
        keep_days: for how many days loaders keep runs; 0 for ever.
        temporary_schemes, temporary_patterns: what makes a dataset temporary.
        open_instances: other deployments and OpenLineage namespaces whose jobs everybody may see who is logged in.
        openlineage_emit_topic: where each finished run is told as one OpenLineage event as well; empty for nowhere.
        openlineage_namespace: of this deployment's jobs in OpenLineage; empty: as `instance`.
        export_url: where the platform takes events; empty for no export.
        export_conn_id: Airflow connection of the platform, used instead.
        export_token: for `Authorization: Bearer`.
        export_what: `relations`, `runs` or `all`.
        export_timeout: seconds for one request.
        export_tries: requests for one event before the platform counts as away.
        export_days: how many days back runs are exported.
        service, image, team: what only the deployment knows.
    """

    enabled: bool = False
    instance: str = "airflow"
    kafka_conn_id: str = "kafka_default"
    kafka_config: Mapping[str, Any] = field(default_factory=dict)
    topic: str = "airflow.lineage"
    dead_letter_topic: str = "airflow.lineage.dlq"
    openlineage_topic: str = ""
    warehouse: str = ""
    warehouse_conn_id: str = ""
    spool_dir: str = ""
    spool_max_bytes: int = 128 * 1024 * 1024
    queue_size: int = 1_000
    task_deadline: float = 2.0
    catch_up_interval: float = 300.0
    catch_up_hours: float = 24.0
    keep_days: float = 0.0
    options: Options = Options()
    naming: Naming = Naming()
    temporary_schemes: frozenset[str] = frozenset({"x-tmp", "inmemory"})
    temporary_patterns: tuple[re.Pattern[str], ...] = ()
    open_instances: frozenset[str] = frozenset()
    openlineage_emit_topic: str = ""
    openlineage_namespace: str = ""
    export_url: str = field(default="", repr=False)
    export_conn_id: str = ""
    export_token: str = field(default="", repr=False)
    export_what: str = "relations"
    export_timeout: float = 30.0
    export_tries: int = 5
    export_days: float = 7.0
    service: str = ""
    image: str = ""
    team: str = ""

    @classmethod
    def read(cls, get: Callable[[str], str | None]) -> LineageSettings:
        """Read and check the section.

        Args:
            get: the text of an option, None or empty if it is not set.

        Raises:
            ConfigError: an option has a value that can't be used.
        """
        reader = _Reader(get)
        known = cls()
        emitted = reader.text("openlineage_emit_topic", "")
        if emitted and emitted == reader.text("openlineage_topic", ""):
            raise ConfigError(_key("openlineage_emit_topic"), emitted, "another topic than openlineage_topic")
        return cls(
            enabled=reader.flag("enabled", known.enabled),
            kafka_config=reader.mapping("kafka_config"),
            options=_options(reader),
            naming=Naming(
                clusters=_clusters(reader),
                default_fs=reader.text("default_fs", ""),
                trim_schemes=frozenset(reader.words("trim_schemes", ("hdfs", "file"))),
            ),
            temporary_schemes=frozenset(reader.words("temporary_schemes", tuple(sorted(known.temporary_schemes)))),
            temporary_patterns=reader.patterns("temporary_patterns"),
            instance=reader.text("instance", known.instance),
            kafka_conn_id=reader.text("kafka_conn_id", known.kafka_conn_id),
            topic=reader.text("topic", known.topic),
            dead_letter_topic=reader.text("dead_letter_topic", known.dead_letter_topic),
            openlineage_topic=reader.text("openlineage_topic", ""),
            warehouse=reader.text("warehouse", ""),
            warehouse_conn_id=reader.text("warehouse_conn_id", ""),
            spool_dir=reader.text("spool_dir", ""),
            spool_max_bytes=reader.whole("spool_max_bytes", known.spool_max_bytes),
            queue_size=reader.whole("queue_size", known.queue_size),
            task_deadline=reader.seconds("task_deadline", known.task_deadline),
            catch_up_interval=reader.seconds("catch_up_interval", known.catch_up_interval),
            catch_up_hours=reader.seconds("catch_up_hours", known.catch_up_hours),
            keep_days=_keep_days(reader),
            open_instances=frozenset(reader.words("open_instances", ())),
            openlineage_emit_topic=emitted,
            openlineage_namespace=reader.text("openlineage_namespace", ""),
            export_url=reader.text("export_url", ""),
            export_conn_id=reader.text("export_conn_id", ""),
            export_token=reader.text("export_token", ""),
            export_what=reader.text("export_what", known.export_what),
            export_timeout=reader.seconds("export_timeout", known.export_timeout),
            export_tries=reader.whole("export_tries", known.export_tries),
            export_days=reader.seconds("export_days", known.export_days),
            service=reader.text("service", ""),
            image=reader.text("image", ""),
            team=reader.text("team", ""),
        )

    @property
    def namespace(self) -> str:
        """Of this deployment's jobs in OpenLineage."""
        return self.openlineage_namespace or self.instance

    def is_temporary(self, namespace: str, name: str) -> bool:
        """Whether a dataset is temporary by its scheme or its name."""
        if namespace.partition("://")[0] in self.temporary_schemes:
            return True
        return any(pattern.search(f"{namespace}/{name.lstrip('/')}") for pattern in self.temporary_patterns)


class _Reader:
    """Turns texts of options into values."""

    def __init__(self, get: Callable[[str], str | None]) -> None:
        self._get = get

    def text(self, name: str, known: str) -> str:
        return self._get(name) or known

    def flag(self, name: str, known: bool) -> bool:
        text = (self._get(name) or "").strip().lower()
        if text in ("", "true", "1", "yes", "on", "false", "0", "no", "off"):
            return known if not text else text in ("true", "1", "yes", "on")
        raise ConfigError(_key(name), text, "true or false")

    def whole(self, name: str, known: int) -> int:
        return self._number(name, known, int, "a whole number above 0")

    def seconds(self, name: str, known: float) -> float:
        return self._number(name, known, float, "a number above 0")

    def _number(self, name: str, known: T, kind: Callable[[str], T], allowed: str) -> T:
        text = (self._get(name) or "").strip()
        if not text:
            return known
        try:
            value = kind(text)
        except ValueError:
            raise ConfigError(_key(name), text, allowed) from None
        if not value > 0:
            raise ConfigError(_key(name), text, allowed)
        return value

    def words(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        text = self._get(name)
        return known if not text else tuple(word.strip() for word in text.split(",") if word.strip())

    def mapping(self, name: str) -> dict[str, Any]:
        text = (self._get(name) or "").strip()
        if not text:
            return {}
        try:
            value = json.loads(text)
        except ValueError as error:
            # The text may hold a password, so it is not repeated.
            raise ConfigError(_key(name), "no JSON", "a JSON object", hint=str(error)) from None
        if not isinstance(value, dict):
            raise ConfigError(_key(name), type(value).__name__, "a JSON object")
        return value

    def patterns(self, name: str) -> tuple[re.Pattern[str], ...]:
        found = []
        for word in self.words(name, ()):
            try:
                found.append(re.compile(word))
            except re.error as error:
                raise ConfigError(_key(name), word, "regular expressions", hint=str(error)) from None
        return tuple(found)


def _key(name: str) -> str:
    return f"[{SECTION}] {name}"


def _keep_days(reader: _Reader) -> float:
    """0 for ever; else no less than what pages, facts and the export of runs look at."""
    if reader.text("keep_days", "").strip() in ("", "0", "0.0"):
        return 0.0
    days = reader.seconds("keep_days", 0.0)
    least = max(float(LEAST_DAYS), reader.seconds("export_days", LineageSettings().export_days) + 1)
    if days < least:
        raise ConfigError(_key("keep_days"), days, f"0 (for ever), or {least:g} and more: what pages and exports need")
    return days


def _options(reader: _Reader) -> Options:
    profile = Options.profile(reader.text("profile", "default"))
    return Options(
        flow=_choice(reader, "flow", Flow, profile.flow),
        intermediates=_choice(reader, "intermediates", Intermediates, profile.intermediates),
        schedule_inputs=reader.flag("schedule_inputs", profile.schedule_inputs),
        max_pairs=reader.whole("max_pairs_per_run", profile.max_pairs),
    )


def _choice(reader: _Reader, name: str, kind: type[C], known: C) -> C:
    text = reader.text(name, "")
    try:
        return kind(text) if text else known
    except ValueError:
        raise ConfigError(_key(name), text, [item.value for item in kind]) from None


def _clusters(reader: _Reader) -> dict[str, tuple[str, ...]]:
    found = {}
    for cluster, brokers in reader.mapping("cluster_aliases").items():
        listed = brokers.split(",") if isinstance(brokers, str) else brokers
        if not isinstance(listed, list) or not all(isinstance(broker, str) for broker in listed):
            raise ConfigError(_key("cluster_aliases"), brokers, 'name -> "host:port,host:port" or a list of these')
        found[cluster] = tuple(broker.strip() for broker in listed)
    return found

"""Every error of the package, in one tree.

KafkaHdfsError                        base of all
  ConfigError (ValueError)            an argument, Param or connection setting can't be used
  PlanningError                       the next run can't be planned
    ClusterChangedError               the brokers answer with another cluster id than the log knows
    OwnedElsewhereError               another pipeline owns the topic at this destination, or the log
    StateMissingError                 data of ours is present, the log is not
  SourceError                         Kafka
    KafkaUnavailableError             transient: brokers away, time-outs, leader elections
    TopicFaultError                   one topic can't be read (missing, denied, re-created)
    OffsetOutOfRangeError             wanted offsets are outside what the broker holds
  SchemaError                         schemas and their registry
    RegistryUnavailableError          transient: registry away, 5xx, time-outs, wrong content
    UnknownSchemaError                the registry answered: no such schema
    UnusableSchemaError               a schema that can't be read or can't serve its purpose
  DecodeError                         one record is bad (goes to quarantine)
  StorageError                        the store
    StoreUnavailableError             transient: name node away, safe mode, time-outs
    StoreRefusedError                 permission, quota, wrong kind of path
    UnsafeStoreError                  the store failed the start-up probe
  StateError                          records of the commit log
    CorruptStateError                 a record or a file the log promises is unreadable or gone
    NewerFormatError                  written by a newer version of this package
    PlanEndedError                    the plan at hand was ended by an abort record or is no more
  HeldBackError                       the run is red: topics held back or offsets undecided
  LineageError                        pairs, messages, warehouse
    WarehouseUnavailableError         transient: the database is away
    PlatformUnavailableError          transient: the governance platform is away or can't take more now

`Transient` marks what a later attempt may cure; everything else is terminal for the attempt's input.
"""

from __future__ import annotations

from collections.abc import Iterable


class KafkaHdfsError(Exception):
    """Base of every error that this package raises."""


class Transient:
    """Marks an error that waiting and trying again may cure; Airflow retries are worth it."""


class ConfigError(KafkaHdfsError, ValueError):
    """An argument, Param or connection setting can't be used as given.

    Args:
        key: name of the argument or setting.
        value: what was received (never a secret).
        allowed: what is allowed, as text or as the list of names.
        hint: the next step, if there is more to say than the allowed values.
    """

    def __init__(self, key: str, value: object, allowed: str | Iterable[object], hint: str = "") -> None:
        self.key = key
        self.value = value
        self.allowed = allowed if isinstance(allowed, str) else ", ".join(str(item) for item in allowed)
        self.hint = hint
        text = f"{key}: got {value!r}; allowed: {self.allowed}"
        super().__init__(f"{text}. {hint}" if hint else text)

    def under(self, prefix: str) -> ConfigError:
        """The same error with a longer key, for a setting inside another one."""
        return ConfigError(f"{prefix}.{self.key}", self.value, self.allowed, self.hint)


class PlanningError(KafkaHdfsError):
    """The next run can't be planned; nothing was changed."""


class ClusterChangedError(PlanningError):
    """The brokers answer with another cluster id than the commit log knows.

    Remedy: point the connection back at the right cluster, or, if the cluster really was replaced,
    say so with `airflow kafka-hdfs state set --cluster`.
    """


class OwnedElsewhereError(PlanningError):
    """Another pipeline owns the topic at this destination, or the commit log that `state_uri` names.

    Remedy: give each pipeline a log of its own, and its own topics or destination, or hand the topic over with
    `airflow kafka-hdfs state release` in the pipeline that owns it.
    """


class StateMissingError(PlanningError):
    """Data files with our names are present, but the commit log is empty.

    Remedy: restore the state folder, or `airflow kafka-hdfs state rebuild`.
    """


class SourceError(KafkaHdfsError):
    """Kafka could not do what was asked."""


class KafkaUnavailableError(Transient, SourceError):
    """Brokers are away, time out, or elect leaders; trying again may cure it."""


class TopicFaultError(SourceError):
    """One topic can't be read: missing, denied, without leader metadata, re-created.

    Args:
        topic: the topic.
        reason: short code (`missing`, `denied`, `topic_recreated`, …) used in records and metrics.
        detail: what the broker said and the next step.
    """

    def __init__(self, topic: str, reason: str, detail: str = "") -> None:
        self.topic = topic
        self.reason = reason
        self.detail = detail
        super().__init__(f"topic {topic}: {reason}" + (f": {detail}" if detail else ""))


class OffsetOutOfRangeError(SourceError):
    """Wanted offsets lie outside what the broker holds."""


class SchemaError(KafkaHdfsError):
    """A schema or the schema registry."""


class RegistryUnavailableError(Transient, SchemaError):
    """The registry is away or answers nonsense; never a reason to call a record bad."""


class UnknownSchemaError(SchemaError):
    """The registry answered, and it does not know the schema id or subject."""


class UnusableSchemaError(SchemaError):
    """A schema that can't be parsed, or can't serve the purpose it is given for."""


class DecodeError(KafkaHdfsError):
    """One record can't be decoded, converted or placed in time.

    Args:
        reason: short code for counts and the quarantine (`frame`, `truncated`, `trailing_bytes`, …).
        detail: what was found and what was expected.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")


class StorageError(KafkaHdfsError):
    """The store could not do what was asked.

    Args:
        action: what was tried (`put_if_absent`, `promote`, …).
        path: the path in the store.
        detail: what the store answered, and the next step.
    """

    def __init__(self, action: str, path: str, detail: str) -> None:
        self.action = action
        self.path = path
        self.detail = detail
        super().__init__(f"{action} {path}: {detail}")


class StoreUnavailableError(Transient, StorageError):
    """The store is away, in safe mode, or did not answer in time."""


class StoreRefusedError(StorageError):
    """The store said no: permission, quota, no space, a folder where a file should be."""


class UnsafeStoreError(StorageError):
    """The store does not create files atomically, so exactly once can't be had on it."""


class StateError(KafkaHdfsError):
    """Records of the commit log."""


class CorruptStateError(StateError):
    """A record is unreadable, or a file that the log promises is gone.

    Remedy: `airflow kafka-hdfs state doctor` names what is wrong and how to mend it.

    Args:
        path: the record or file.
        detail: what was found.
    """

    def __init__(self, path: str, detail: str) -> None:
        self.path = path
        self.detail = detail
        super().__init__(f"{path}: {detail}; `airflow kafka-hdfs state doctor` tells what it means and how to mend it")


class NewerFormatError(StateError):
    """A record was written by a newer version of this package; upgrade before running on this state."""


class PlanEndedError(StateError):
    """The plan at hand was ended by an abort record, or its rest went back to the log."""


class HeldBackError(KafkaHdfsError):
    """The run is red: topics were held back or offsets stay undecided. The text names them and the next step."""


class LineageError(KafkaHdfsError):
    """Pairs, messages or the lineage warehouse."""


class WarehouseSchemaError(LineageError):
    """The warehouse's tables are missing, or of another version than this package."""


class WarehouseUnavailableError(Transient, LineageError):
    """The warehouse database is away; loading goes on where it stopped."""


class PlatformUnavailableError(Transient, LineageError):
    """The platform that lineage is exported to did not take an event; nothing is lost, a later export goes on."""

"""Connections of type `schema_registry`, and the forms that the argument `registry` may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow.sdk import BaseHook

from airflow_kafka_hdfs.exceptions import ConfigError, KafkaHdfsError
from airflow_kafka_hdfs.hooks.connections import telling_of_missing
from airflow_kafka_hdfs.ports.runtime import Clock
from airflow_kafka_hdfs.ports.schemas import SchemaRegistry
from airflow_kafka_hdfs.ports.store import Store

if TYPE_CHECKING:
    from requests.auth import AuthBase

    from airflow_kafka_hdfs.adapters.rest_client import RestClient

_EXAMPLE = '{"conn_type": "schema_registry", "host": "http://registry:8081"}'
_FORMS = "a connection id, an http(s) URL, the URI of a folder of .avsc files"

IdWidth = Literal[4, 16]
IdWidths = IdWidth | Callable[[str], IdWidth]
"""Bytes of a schema id: of all topics, or of each topic by its name where they differ."""


class SchemaRegistryHook(BaseHook):
    """A schema registry behind a connection.

    The host is the registry's base URL; a host without `://` is taken as http. User and password, or a bearer token
    in the extra, log in. The extra's fields are those of the connection form.

    Args:
        schema_registry_conn_id: the connection.
        id_width: bytes of a schema id where the connection does not say it. Where topics differ, it may not say it.
    """

    conn_name_attr = "schema_registry_conn_id"
    default_conn_name = "schema_registry_default"
    conn_type = "schema_registry"
    hook_name = "Schema Registry"

    def __init__(self, schema_registry_conn_id: str = default_conn_name, *, id_width: IdWidths = 4) -> None:
        super().__init__()
        self.schema_registry_conn_id = schema_registry_conn_id
        self._width = id_width

    def get_conn(self) -> SchemaRegistry:
        """The registry's client. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.runtime import SystemClock

        return self.registry(SystemClock())

    def registry(self, clock: Clock) -> SchemaRegistry:
        """The registry's client with a given clock. Raises ConfigError."""
        connection = self.get_connection(self.schema_registry_conn_id)
        extra = connection.extra_dejson
        return _rest_registry(self._client(connection, clock), clock, self._id_width(extra), extra)

    def test_connection(self) -> tuple[bool, str]:
        """Ask the registry something harmless, for Airflow's connection form."""
        from airflow_kafka_hdfs.adapters.runtime import SystemClock

        try:
            connection = self.get_connection(self.schema_registry_conn_id)
            client = self._client(connection, SystemClock())
            if self._id_width(connection.extra_dejson) != 4:
                answer = client.get("/")  # these registries have no list to ask for
                return True, f"{answer.url} answers with status {answer.status}"
            answer = client.get("/subjects")
            subjects = answer.json_or_none()
            if answer.status != 200 or not isinstance(subjects, list):
                return False, str(answer.nonsense("no list of subjects"))
        except KafkaHdfsError as error:
            return False, str(error)
        return True, f"{answer.url} answers: {len(subjects)} subjects"

    def _id_width(self, extra: dict[str, Any]) -> IdWidths:
        width = extra.get("id_width")
        if not width:
            return self._width
        key = f"connection {self.schema_registry_conn_id}: id_width"
        if str(width) not in ("4", "16"):
            raise ConfigError(key, width, "4, 16")
        if callable(self._width):
            hint = "Leave it empty: then each topic has the width of its value_format."
            raise ConfigError(key, width, "None, since topics of this pipeline have ids of 4 and of 16 bytes", hint)
        return 4 if str(width) == "4" else 16

    def _client(self, connection: Any, clock: Clock) -> RestClient:
        from requests.auth import HTTPBasicAuth

        from airflow_kafka_hdfs.adapters.rest_client import BearerAuth, RestClient, TlsFiles

        extra = connection.extra_dejson
        auth: AuthBase | None = None
        if extra.get("token"):
            auth = BearerAuth(extra["token"])
        elif connection.login:
            auth = HTTPBasicAuth(connection.login, connection.password or "")
        tls = TlsFiles(extra.get("ca_file") or None, extra.get("cert_file") or None, extra.get("key_file") or None)
        return RestClient(base_url=self._base_url(connection), clock=clock, auth=auth, tls=tls)

    def _base_url(self, connection: Any) -> str:
        host = connection.host or ""
        if not host:
            raise ConfigError(f"connection {self.schema_registry_conn_id}: host", host, "the registry's URL")
        url = host if "://" in host else f"http://{host}"
        if connection.port:
            scheme, _, rest = url.partition("://")
            name, slash, path = rest.partition("/")
            url = f"{scheme}://{name}:{connection.port}{slash}{path}"
        return f"{url.rstrip('/')}/{connection.schema}" if connection.schema else url


def registry_for(
    registry: str, *, id_width: IdWidths, clock: Clock, open_store: Callable[[str], Store]
) -> SchemaRegistry:
    """The registry that the argument `registry` means.

    Args:
        registry: a connection id, an http(s) URL, or the URI or absolute path of a folder of `.avsc` files.
        id_width: bytes of a schema id by the value format; a connection that says otherwise wins, unless topics differ.
        clock: waits between tries.
        open_store: makes a store that is rooted at a folder.

    Raises:
        ConfigError: the argument or the connection can't be used.
    """
    from airflow_kafka_hdfs.adapters.rest_client import RestClient
    from airflow_kafka_hdfs.adapters.schema_registry import FolderRegistry

    if registry.startswith(("http://", "https://")):
        return _rest_registry(RestClient(base_url=registry, clock=clock), clock, id_width, {})
    if "://" in registry or registry.startswith("/"):
        try:
            return FolderRegistry(open_store(registry), clock)
        except ConfigError as error:
            raise error if error.key != "uri" else ConfigError("registry", registry, _FORMS, error.hint) from None
    if not registry:
        raise ConfigError("registry", registry, _FORMS)
    with telling_of_missing("registry", registry, _EXAMPLE, _FORMS):
        return SchemaRegistryHook(registry, id_width=id_width).registry(clock)


def _rest_registry(client: RestClient, clock: Clock, id_width: IdWidths, extra: dict[str, Any]) -> SchemaRegistry:
    from airflow_kafka_hdfs.adapters.schema_registry import ConfluentRegistry, MixedIdRegistry, WideIdRegistry

    if callable(id_width):
        width_of = id_width
        narrow, wide = (_rest_registry(client, clock, width, extra) for width in get_args(IdWidth))
        return MixedIdRegistry(narrow, wide, lambda topic: width_of(topic) == 16)
    if id_width == 4:
        return ConfluentRegistry(client, clock, subject=extra.get("subject") or "{topic}-value")
    return WideIdRegistry(
        client,
        clock,
        path_by_id=extra.get("path_by_id") or "/id={id}",
        path_latest=extra.get("path_latest") or "/latest_with_type={topic}",
        not_found=extra.get("not_found") or "",
    )

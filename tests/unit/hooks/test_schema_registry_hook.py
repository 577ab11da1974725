from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from airflow_kafka_hdfs.adapters.schema_registry import ConfluentRegistry, FolderRegistry, WideIdRegistry
from airflow_kafka_hdfs.exceptions import ConfigError, RegistryUnavailableError
from airflow_kafka_hdfs.hooks.schema_registry_form import SCHEMA_REGISTRY_CONNECTION_TYPE
from airflow_kafka_hdfs.ports.schemas import SchemaRegistry
from airflow_kafka_hdfs.ports.store import Store
from tests.fakes.registry_server import RegistryServer, Reply, registry_server
from tests.fakes.runtime import ManualClock
from tests.fakes.store import InMemoryStore
from tests.unit.hooks.connections import set_connection

USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]})
PAGE = json.dumps({"type": "record", "name": "Page", "fields": [{"name": "url", "type": "string"}]})
MD5 = hashlib.md5(USER.encode()).hexdigest()


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes a connection and returns its id."""
    return functools.partial(set_connection, monkeypatch)


@pytest.fixture
def hooks(airflow_home: None) -> ModuleType:
    """The module, imported when Airflow has its home."""
    from airflow_kafka_hdfs.hooks import schema_registry

    return schema_registry


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as running:
        running.register("users", USER)
        yield running


def no_store(uri: str) -> Store:
    raise AssertionError(f"no store is needed for {uri}")


@pytest.mark.parametrize("by", ["url", "host and port", "path in the schema field"])
def test_a_connection_names_the_registry(
    hooks: ModuleType, server: RegistryServer, connection: Callable[..., str], by: str
):
    host, _, port = server.url.removeprefix("http://").partition(":")
    fields = {
        "url": {"host": server.url},
        "host and port": {"host": host, "port": int(port)},
        "path in the schema field": {"host": f"http://{host}", "port": int(port), "schema": "api/v1"},
    }[by]
    hook = hooks.SchemaRegistryHook(connection("registry_test", "schema_registry", **fields))
    registry = hook.registry(ManualClock())
    assert isinstance(registry, ConfluentRegistry)
    if by != "path in the schema field":
        assert registry.by_id(1) == USER
    else:
        with pytest.raises(RegistryUnavailableError, match=f"{server.url}/api/v1/schemas/ids/1"):
            registry.by_id(1)


def test_user_and_password_or_a_token_log_in(hooks: ModuleType, server: RegistryServer, connection: Callable[..., str]):
    login = {"login": "me", "password": "geheim"}
    hook = hooks.SchemaRegistryHook(connection("registry_test", "schema_registry", host=server.url, **login))
    hook.get_conn().latest("users")
    assert server.requests[-1][1] == "Basic " + base64.b64encode(b"me:geheim").decode()
    extra = {"token": "t0ken"}
    hook = hooks.SchemaRegistryHook(connection("registry_test", "schema_registry", host=server.url, extra=extra))
    hook.get_conn().latest("users")
    assert server.requests[-1][1] == "Bearer t0ken"


def test_the_width_of_ids_is_the_connections_or_else_the_value_formats(
    hooks: ModuleType, server: RegistryServer, connection: Callable[..., str]
):
    clock = ManualClock()
    plain = connection("registry_plain", "schema_registry", host=server.url)
    assert isinstance(hooks.SchemaRegistryHook(plain, id_width=16).registry(clock), WideIdRegistry)
    assert isinstance(hooks.SchemaRegistryHook(plain).registry(clock), ConfluentRegistry)
    wide = connection("registry_wide", "schema_registry", host=server.url, extra={"id_width": "16"})
    assert hooks.SchemaRegistryHook(wide, id_width=4).registry(clock).by_id(MD5) == USER
    odd = connection("registry_odd", "schema_registry", host=server.url, extra={"id_width": 8})
    with pytest.raises(ConfigError, match="connection registry_odd: id_width: got 8; allowed: 4, 16"):
        hooks.SchemaRegistryHook(odd).get_conn()


def test_topics_of_one_pipeline_may_differ_in_the_width_of_ids(
    hooks: ModuleType, server: RegistryServer, connection: Callable[..., str]
):
    from airflow_kafka_hdfs.ingest.config import IngestConfig
    from airflow_kafka_hdfs.operators.ports import open_sources

    def opened(registry: str) -> SchemaRegistry | None:
        overrides = {"pages": {"value_format": "avro_id16"}, "plain": {"value_format": "json"}}
        arguments = {"topics": ["users", "pages", "plain"], "destination": "file:///data", "pipeline_id": "p"}
        settings = {"value_format": "avro_confluent", "registry": registry, "topic_overrides": overrides}
        return open_sources(IngestConfig.of({**arguments, **settings})).registry

    connection("kafka_default", "kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
    server.register("pages", PAGE)
    page_id = hashlib.md5(PAGE.encode()).hexdigest()
    for argument in (server.url, connection("registry_test", "schema_registry", host=server.url)):
        registry = opened(argument)
        assert registry is not None
        assert (registry.by_id(1), registry.by_id(page_id)) == (USER, PAGE)
        assert (registry.latest("users"), registry.latest("pages")) == ((1, USER), (page_id, PAGE))
    told = connection("registry_told", "schema_registry", host=server.url, extra={"id_width": 16})
    with pytest.raises(ConfigError, match="connection registry_told: id_width: got 16; allowed: None, since topics"):
        opened(told)


def test_paths_and_subjects_come_from_the_extra(
    hooks: ModuleType, server: RegistryServer, connection: Callable[..., str]
):
    server.always = Reply(200, USER.encode(), "text/plain")
    extra = {"id_width": 16, "path_by_id": "/v2/{id}", "path_latest": "/v2/of/{topic}"}
    registry = hooks.SchemaRegistryHook(
        connection("registry_test", "schema_registry", host=server.url, extra=extra)
    ).get_conn()
    registry.by_id(MD5)
    registry.latest("users")
    assert [path for path, _ in server.requests] == [f"/v2/{MD5}", "/v2/of/users"]
    server.always = None
    extra = {"subject": "{topic}"}
    named = connection("registry_test", "schema_registry", host=server.url, extra=extra)
    assert hooks.SchemaRegistryHook(named).get_conn().latest("users") == (1, USER)


def test_a_connection_without_host_is_refused(hooks: ModuleType, connection: Callable[..., str]):
    with pytest.raises(ConfigError, match="connection registry_test: host"):
        hooks.SchemaRegistryHook(connection("registry_test", "schema_registry")).get_conn()


def test_the_connection_form_can_try_the_connection(
    hooks: ModuleType, server: RegistryServer, connection: Callable[..., str]
):
    good = connection("registry_test", "schema_registry", host=server.url)
    assert hooks.SchemaRegistryHook(good).test_connection() == (True, f"{server.url}/subjects answers: 2 subjects")
    wide = connection("registry_wide", "schema_registry", host=server.url, extra={"id_width": 16})
    server.always = Reply(404, b"{}")
    assert hooks.SchemaRegistryHook(wide).test_connection() == (True, f"{server.url}/ answers with status 404")
    server.always = Reply(401, b"who are you?", "text/plain")
    works, said = hooks.SchemaRegistryHook(good).test_connection()
    assert not works
    assert "refuses the log-in" in said
    server.always = Reply(200, b'{"no": "list"}')
    assert hooks.SchemaRegistryHook(good).test_connection()[0] is False
    nobody = connection("registry_nobody", "schema_registry")
    works, said = hooks.SchemaRegistryHook(nobody).test_connection()
    assert (works, "host" in said) == (False, True)


def test_the_argument_is_a_connection_an_address_or_a_folder(
    hooks: ModuleType, server: RegistryServer, connection: Callable[..., str]
):
    clock = ManualClock()
    conn_id = connection("registry_test", "schema_registry", host=server.url)
    assert hooks.registry_for(conn_id, id_width=4, clock=clock, open_store=no_store).by_id(1) == USER
    assert hooks.registry_for(server.url, id_width=4, clock=clock, open_store=no_store).by_id(1) == USER
    assert hooks.registry_for(server.url, id_width=16, clock=clock, open_store=no_store).by_id(MD5) == USER
    opened: list[str] = []

    def open_store(uri: str) -> Store:
        opened.append(uri)
        store = InMemoryStore()
        store.put_if_absent("users.avsc", USER.encode())
        return store

    for uri in ("file:///schemas", "webhdfs://name-node/schemas", "/schemas"):
        registry = hooks.registry_for(uri, id_width=16, clock=clock, open_store=open_store)
        assert isinstance(registry, FolderRegistry)
        assert registry.latest("users") == (MD5, USER)
    assert opened == ["file:///schemas", "webhdfs://name-node/schemas", "/schemas"]
    with pytest.raises(ConfigError, match="registry"):
        hooks.registry_for("", id_width=4, clock=clock, open_store=no_store)


def test_the_form_describes_this_hook_and_every_field_it_reads(hooks: ModuleType):
    form = SCHEMA_REGISTRY_CONNECTION_TYPE
    assert form["connection-type"] == hooks.SchemaRegistryHook.conn_type
    assert form["hook-name"] == hooks.SchemaRegistryHook.hook_name
    assert form["hook-class-name"] == f"{hooks.SchemaRegistryHook.__module__}.{hooks.SchemaRegistryHook.__qualname__}"
    read = {"id_width", "token", "subject", "path_by_id", "path_latest", "not_found", "ca_file", "cert_file"}
    assert set(form["conn-fields"]) == read | {"key_file"}
    json.dumps(form)


@pytest.mark.parametrize(
    ("written", "text"), [("registry_defalt", "AIRFLOW_CONN_REGISTRY_DEFALT="), ("htp://registry:8081", "htp")]
)
def test_what_names_no_registry_is_told_with_its_argument(hooks: ModuleType, written: str, text: str):
    from airflow_kafka_hdfs.hooks.storage import store_for

    with pytest.raises(ConfigError, match=f"registry: got '{written}'; allowed: a connection id, .*{text}"):
        hooks.registry_for(written, id_width=4, clock=ManualClock(), open_store=store_for)

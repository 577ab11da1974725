"""What REST registries make of all that can go wrong on the way, with ids of 4 and of 16 bytes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket

import pytest
from requests.auth import HTTPBasicAuth

from airflow_kafka_hdfs.adapters import rest_client
from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.rest_client import BearerAuth, RestClient
from airflow_kafka_hdfs.adapters.schema_registry import ConfluentRegistry, WideIdRegistry
from airflow_kafka_hdfs.exceptions import ConfigError, RegistryUnavailableError, UnknownSchemaError, UnusableSchemaError
from airflow_kafka_hdfs.ports.schemas import SchemaRegistry
from tests.contract.registries import USER, WideShelf
from tests.fakes.registry_server import JSON, RegistryServer, Reply
from tests.fakes.runtime import ManualClock
from tests.stack.registry import ApicurioRegistry


def confluent(server: RegistryServer, clock: ManualClock | None = None, **named) -> ConfluentRegistry:
    clock = clock or ManualClock()
    return ConfluentRegistry(RestClient(base_url=server.url, clock=clock, **named), clock)


def test_an_id_is_asked_for_once_and_a_latest_schema_each_time(server: RegistryServer):
    schema_id = server.register("t", USER)
    registry = confluent(server)
    for _ in range(3):
        registry.by_id(schema_id)
        registry.latest("t")
    assert [path for path, _ in server.requests] == [f"/schemas/ids/{schema_id}"] + 3 * [
        "/subjects/t-value/versions/latest"
    ]


def test_what_latest_brought_needs_no_further_look(server: RegistryServer):
    server.register("t", USER)
    registry = confluent(server)
    schema_id, text = registry.latest("t")
    assert registry.by_id(schema_id) == text
    assert len(server.requests) == 1


def test_a_no_is_believed_for_half_a_minute(server: RegistryServer):
    clock = ManualClock()
    registry = confluent(server, clock)
    for _ in range(3):
        with pytest.raises(UnknownSchemaError):
            registry.by_id(1)
    assert len(server.requests) == 1
    server.register("t", USER)
    clock.advance(31)
    assert registry.by_id(1) == USER


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500, b'{"error_code": 50001, "message": "store"}'),
        Reply(503, b"<html>down</html>", "text/html"),
        Reply(502, b""),
        Reply(429, b'{"error_code": 42901}'),
        Reply(408, b""),
        Reply(200, b"<!doctype html><title>Log in</title>", "text/html"),
        Reply(200, b"  <html>", JSON),
        Reply(200, b'{"schema": "', cut=True),
    ],
    ids=["500", "503 page", "502 empty", "429", "408", "log-in page", "page as JSON", "cut off"],
)
def test_an_outage_is_waited_for_and_then_told(server: RegistryServer, reply: Reply):
    schema_id = server.register("t", USER)
    server.script = [reply] * 3
    clock = ManualClock()
    assert confluent(server, clock).by_id(schema_id) == USER
    assert clock.sleeps == [0.5, 1.0, 2.0]
    server.always = reply
    with pytest.raises(RegistryUnavailableError, match=f"{server.url}/schemas/ids/77: no answer in 5 tries"):
        confluent(server, clock).by_id(77)
    server.requests.clear()
    with pytest.raises(RegistryUnavailableError):
        confluent(server, clock).latest("t")
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    "reply",
    [
        Reply(404, b"not found", "text/plain"),
        Reply(404, b"<html>no such page</html>", "text/html"),
        Reply(404, b""),
        Reply(404, b'{"error": "no such route"}'),
        Reply(404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        Reply(401, b'{"error_code": 401}'),
        Reply(403, b"denied", "text/plain"),
        Reply(400, b'{"error_code": 40403}'),
        Reply(200, b"plain words", "text/plain"),
        Reply(200, b"[]"),
        Reply(200, b"{}"),
        Reply(200, b'{"schema": 5, "id": 5}'),
        Reply(204, b""),
    ],
    ids=[
        "404 text",
        "404 page",
        "404 empty",
        "404 JSON",
        "404 of the server itself",
        "401",
        "403",
        "400",
        "words",
        "list",
        "empty object",
        "wrong type",
        "204",
    ],
)
def test_only_the_registrys_own_no_makes_a_schema_unknown(server: RegistryServer, reply: Reply):
    server.always = reply
    with pytest.raises(RegistryUnavailableError, match=re.escape(server.url)):
        confluent(server).by_id(1)
    with pytest.raises(RegistryUnavailableError, match=re.escape(server.url)):
        confluent(server).latest("t")


def test_nobody_listening_is_an_outage():
    clock = ManualClock()
    registry = ConfluentRegistry(RestClient(base_url="http://127.0.0.1:1", clock=clock), clock)
    with pytest.raises(RegistryUnavailableError, match="no answer in 5 tries"):
        registry.by_id(1)


def test_an_endless_body_is_cut(server: RegistryServer):
    server.always = Reply(200, b'{"schema": "' + b"x" * (11 * 1024 * 1024) + b'"}')
    with pytest.raises(RegistryUnavailableError, match="more than 10485760 bytes"):
        confluent(server).by_id(1)


def test_a_registry_that_takes_the_call_and_says_nothing_is_an_outage(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rest_client, "_READ_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system takes connections, nobody answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        clock = ManualClock()
        registry = ConfluentRegistry(RestClient(base_url=url, clock=clock), clock)
        with pytest.raises(RegistryUnavailableError, match=rf"{url}/schemas/ids/1: no answer in 5 tries.*timed out"):
            registry.by_id(1)


def test_a_body_that_drips_is_given_up_after_its_time(server: RegistryServer):
    class Passing(ManualClock):
        def monotonic(self) -> float:
            self.advance(20)
            return super().monotonic()

    server.always = Reply(200, b'{"schema": "' + b"x" * 300_000 + b'"}')
    with pytest.raises(RegistryUnavailableError, match=r"the body took more than 30.0 s"):
        confluent(server, Passing()).by_id(1)


def test_log_ins_are_sent_and_never_shown(server: RegistryServer):
    schema_id = server.register("t", USER)
    host = server.url.removeprefix("http://")
    clock = ManualClock()
    basic = "Basic " + base64.b64encode(b"me:p@ss/word").decode()
    cases = {
        basic: RestClient(base_url=f"http://me:p%40ss%2Fword@{host}", clock=clock),
        "Basic " + base64.b64encode(b"you:p@ss/word").decode(): RestClient(
            base_url=server.url, clock=clock, auth=HTTPBasicAuth("you", "p@ss/word")
        ),
        "Bearer p@ss/word": RestClient(base_url=server.url, clock=clock, auth=BearerAuth("p@ss/word")),
        None: RestClient(base_url=server.url, clock=clock),
    }
    for sent, client in cases.items():
        assert ConfluentRegistry(client, clock).by_id(schema_id) == USER
        assert server.requests[-1][1] == sent
        server.always = Reply(403, b"no")
        with pytest.raises(RegistryUnavailableError) as refused:
            ConfluentRegistry(client, clock).by_id(2)
        server.always = None
        shown = f"{client!r} {refused.value}"
        assert "p@ss" not in shown
        assert "p%40ss" not in shown


def test_a_password_in_the_address_is_not_in_connection_errors():
    clock = ManualClock()
    client = RestClient(base_url="http://me:geheim@127.0.0.1:1", clock=clock)
    with pytest.raises(RegistryUnavailableError) as caught:
        client.get("/subjects")
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("url", ["ftp://host", "host:8081", "http://", "http://host?token=geheim", "http://h#x"])
def test_an_address_that_is_none_is_refused(url: str):
    with pytest.raises(ConfigError, match="an http or https URL without query") as caught:
        RestClient(base_url=url, clock=ManualClock())
    assert "geheim" not in str(caught.value)


def test_topics_with_strange_names_are_asked_for_safely(server: RegistryServer):
    server.register("a/b c?d", USER)
    assert confluent(server).latest("a/b c?d") == (1, USER)
    assert server.requests[-1][0] == "/subjects/a%2Fb%20c%3Fd-value/versions/latest"


def test_the_subject_of_a_topic_can_be_named(server: RegistryServer):
    server.register("t", USER, subject="shop.User")
    clock = ManualClock()
    client = RestClient(base_url=server.url, clock=clock)
    assert ConfluentRegistry(client, clock, subject="shop.{topic}").latest("User") == (1, USER)
    with pytest.raises(ConfigError, match="subject"):
        ConfluentRegistry(client, clock, subject="fixed")


@pytest.mark.parametrize("body", [{"schema": "{}", "schemaType": "PROTOBUF"}, {"schema": "{}", "schemaType": "JSON"}])
def test_schemas_of_other_kinds_are_unusable(server: RegistryServer, body: dict):
    server.always = Reply(200, json.dumps(body).encode())
    with pytest.raises(UnusableSchemaError, match="allowed: AVRO"):
        confluent(server).by_id(1)


@pytest.mark.parametrize("schema", ["no json", "{}", "5", "null"])
def test_a_registry_that_holds_no_schema_under_an_id_is_told_apart_from_an_outage(server: RegistryServer, schema: str):
    server.always = Reply(200, json.dumps({"schema": schema, "id": 1}).encode())
    with pytest.raises(UnusableSchemaError):
        confluent(server).by_id(1)


@pytest.mark.parametrize("schema_id", [-1, 2**31, 2**32 - 1])
def test_ids_that_no_registry_gives_are_unknown_without_asking(server: RegistryServer, schema_id: int):
    with pytest.raises(UnknownSchemaError):
        confluent(server).by_id(schema_id)
    assert server.requests == []


def test_an_id_of_the_other_width_names_the_setting(server: RegistryServer):
    with pytest.raises(ConfigError, match="id_width"):
        confluent(server).by_id("0" * 32)
    with pytest.raises(ConfigError, match="id_width"):
        WideShelf(server).registry.by_id(5)


ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "shop.types",
    "fields": [{"name": "zip", "type": "string"}],
}
CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [
        {"name": "home", "type": "shop.types.Address"},
        {"name": "work", "type": ["null", "shop.types.Address"]},
    ],
}
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "by", "type": "Customer"}]}


def check_order(registry: SchemaRegistry, schema_id: int | str) -> None:
    codec, text = FastavroCodec(), registry.by_id(schema_id)
    value = {"by": {"home": {"zip": "1"}, "work": {"zip": "2"}}}
    assert codec.decode(text, codec.encode(text, value)) == value


def test_references_of_references_are_written_into_the_schema(server: RegistryServer):
    server.register("address", json.dumps(ADDRESS), subject="address")
    to_address = [{"name": "shop.types.Address", "subject": "address", "version": 1}]
    server.register("customer", json.dumps(CUSTOMER), subject="customer", references=to_address)
    to_customer = [{"name": "shop.Customer", "subject": "customer", "version": 1}]
    schema_id = server.register("orders", json.dumps(ORDER), references=to_customer)
    check_order(confluent(server), schema_id)
    assert json.loads(confluent(server).latest("orders")[1])["name"] == "Order"


@pytest.mark.services
def test_references_of_a_real_registry_are_written_into_the_schema(schema_registry: ApicurioRegistry, unique_name: str):
    import requests

    def register(subject: str, schema: dict, references: list[dict]) -> int:
        body = {"schema": json.dumps(schema), "references": references}
        answer = requests.post(f"{schema_registry.url}/subjects/{subject}/versions", json=body, timeout=30)
        answer.raise_for_status()
        return answer.json()["id"]

    address, customer, order = (f"{unique_name}-{part}" for part in ("address", "customer", "order-value"))
    register(address, ADDRESS, [])
    register(customer, CUSTOMER, [{"name": "shop.types.Address", "subject": address, "version": 1}])
    schema_id = register(order, ORDER, [{"name": "shop.Customer", "subject": customer, "version": 1}])
    clock = ManualClock()
    registry = ConfluentRegistry(RestClient(base_url=schema_registry.url, clock=clock), clock)
    check_order(registry, schema_id)
    assert registry.latest(f"{unique_name}-order")[0] == schema_id


# The 16-byte API


def test_hex_ids_are_taken_in_any_case(server: RegistryServer):
    shelf = WideShelf(server)
    schema_id = str(shelf.register("t", USER))
    assert shelf.registry.by_id(schema_id.upper()) == USER
    assert server.requests[-1][0] == f"/id={schema_id}"


@pytest.mark.parametrize("schema_id", ["", "12", "x" * 32, "0" * 31, "0" * 33])
def test_ids_that_are_not_32_hex_digits_are_unknown_without_asking(server: RegistryServer, schema_id: str):
    with pytest.raises(UnknownSchemaError):
        WideShelf(server).registry.by_id(schema_id)
    assert server.requests == []


def test_other_paths_and_a_body_with_the_schema_as_an_object(server: RegistryServer):
    clock = ManualClock()
    registry = WideIdRegistry(
        RestClient(base_url=server.url, clock=clock), clock, path_by_id="/v1/{id}", path_latest="/v1/of/{topic}"
    )
    schema_id = "ab" * 16
    server.always = Reply(200, json.dumps({"id": schema_id.upper(), "schema": json.loads(USER)}).encode())
    assert json.loads(registry.by_id(schema_id)) == json.loads(USER)
    assert registry.latest("t")[0] == schema_id
    assert [path for path, _ in server.requests] == [f"/v1/{schema_id}", "/v1/of/t"]
    with pytest.raises(ConfigError, match="path_by_id"):
        WideIdRegistry(RestClient(base_url=server.url, clock=clock), clock, path_by_id="/v1")


def test_the_id_of_a_latest_schema_is_its_md5_if_the_registry_tells_none(server: RegistryServer):
    server.always = Reply(200, USER.encode(), "text/plain")
    assert WideShelf(server).registry.latest("t") == (hashlib.md5(USER.encode()).hexdigest(), USER)


def test_a_no_in_plain_words_is_taken_where_the_connection_names_them(server: RegistryServer):
    server.always = Reply(404, b"no schema with this id", "text/plain")
    with pytest.raises(RegistryUnavailableError):
        WideShelf(server).registry.by_id("0" * 32)
    clock = ManualClock()
    client = RestClient(base_url=server.url, clock=clock)
    registry = WideIdRegistry(client, clock, not_found="no schema")
    with pytest.raises(UnknownSchemaError):
        registry.by_id("0" * 32)
    assert registry.latest("t") is None

"""Every `SchemaRegistry` answers like this; and what a folder of schema files makes of what lies in it."""

from __future__ import annotations

import hashlib
import json

import pytest

from airflow_kafka_hdfs.adapters.schema_registry import FolderRegistry
from airflow_kafka_hdfs.exceptions import RegistryUnavailableError, UnknownSchemaError, UnusableSchemaError
from tests.contract.registries import USER, USER_2, ConfluentShelf, FakeShelf, FolderShelf, Shelf, WideShelf
from tests.fakes.runtime import ManualClock
from tests.fakes.store import InMemoryStore


@pytest.fixture(
    params=[
        "fake, numbers",
        "fake, hex",
        "confluent",
        "wide",
        "folder, numbers",
        "folder, hex",
        pytest.param("apicurio", marks=pytest.mark.services),
    ]
)
def shelf(request: pytest.FixtureRequest) -> Shelf:
    match request.param:
        case "confluent":
            return ConfluentShelf(request.getfixturevalue("server"))
        case "wide":
            return WideShelf(request.getfixturevalue("server"))
        case "apicurio":
            return ConfluentShelf(request.getfixturevalue("schema_registry"))
        case "folder, numbers" | "folder, hex":
            return FolderShelf(hex_ids="hex" in request.param)
        case _:
            return FakeShelf(16 if "hex" in request.param else 4)


def test_a_schema_is_found_by_its_id(shelf: Shelf, unique_name: str):
    schema_id = shelf.register(unique_name, USER)
    assert json.loads(shelf.registry.by_id(schema_id)) == json.loads(USER)


def test_the_latest_schema_of_a_topic_comes_with_its_id(shelf: Shelf, unique_name: str):
    first = shelf.register(unique_name, USER)
    assert shelf.registry.latest(unique_name) == (first, shelf.registry.by_id(first))
    second = shelf.register(unique_name, USER_2)
    schema_id, text = shelf.registry.latest(unique_name)
    assert (schema_id, json.loads(text)) == (second, json.loads(USER_2))
    assert json.loads(shelf.registry.by_id(first)) == json.loads(USER)


def test_a_topic_without_a_schema_has_none(shelf: Shelf):
    assert shelf.registry.latest("never_registered") is None


def test_an_id_that_nobody_knows_is_unknown(shelf: Shelf):
    with pytest.raises(UnknownSchemaError, match=str(shelf.unknown)):
        shelf.registry.by_id(shelf.unknown)


# The folder


def test_a_file_is_found_by_its_md5_whatever_it_is_called():
    shelf = FolderShelf(hex_ids=True)
    shelf.store.put_if_absent("users.avsc", USER.encode())
    md5 = hashlib.md5(USER.encode()).hexdigest()
    assert shelf.registry.by_id(md5) == USER
    assert shelf.registry.latest("users") == (md5, USER)


def test_a_folder_that_can_not_be_read_is_an_outage():
    class Away(InMemoryStore):
        def get(self, path: str) -> bytes | None:
            from airflow_kafka_hdfs.exceptions import StoreUnavailableError

            raise StoreUnavailableError("get", path, "the name node is away")

    registry = FolderRegistry(Away(), ManualClock())
    with pytest.raises(RegistryUnavailableError, match="the name node is away"):
        registry.by_id(1)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"no json", b"{}"])
def test_a_file_that_holds_no_schema_is_unusable(content: bytes):
    shelf = FolderShelf(hex_ids=False)
    shelf.store.put_if_absent("1.avsc", content)
    with pytest.raises(UnusableSchemaError, match=r"1\.avsc"):
        shelf.registry.by_id(1)

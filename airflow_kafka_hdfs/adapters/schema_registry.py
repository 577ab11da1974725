"""Schema registries: Confluent's REST API, the older one with 16-byte ids, and a folder of `.avsc` files.

A record is bad only if the registry itself says that it does not know the schema id. Whatever else comes instead of a
schema (no connection, 5xx, a proxy's 404, a log-in page) is an outage: it is tried again a few times, then raised as
RegistryUnavailableError, and never blamed on the data.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from airflow_kafka_hdfs.adapters.rest_client import Answer, RestClient
from airflow_kafka_hdfs.adapters.schema_references import inline_references
from airflow_kafka_hdfs.exceptions import (
    ConfigError,
    RegistryUnavailableError,
    StorageError,
    UnknownSchemaError,
    UnusableSchemaError,
)
from airflow_kafka_hdfs.ports.runtime import Clock
from airflow_kafka_hdfs.ports.schemas import SchemaRegistry
from airflow_kafka_hdfs.ports.store import Store

R = TypeVar("R")

# A registry's "no" is believed for so long: many records with one unknown id ask once, a schema registered a moment
# after its first record is found soon.
_BELIEVE_NO_SECONDS = 30.0
_LARGEST_ID = 2**31 - 1
_MAX_REFERENCES = 200

# Confluent's error codes: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA = 40401, 40402, 40403


class _CachedRegistry(SchemaRegistry):
    """Keeps schemas by id for ever and refusals for a while; subclasses fetch."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[int | str, str] = {}
        self._refused: dict[int | str, tuple[float, UnknownSchemaError]] = {}

    def by_id(self, schema_id: int | str) -> str:
        """The schema of an id. Raises as the port says."""
        wanted = self._well_formed(schema_id)
        known = self._known.get(wanted)
        if known is not None:
            return known
        refused = self._refused.get(wanted)
        if refused is not None and self._clock.monotonic() - refused[0] < _BELIEVE_NO_SECONDS:
            raise refused[1]
        try:
            return self._keep(wanted, self._fetch(wanted))
        except UnknownSchemaError as error:
            self._refused[wanted] = (self._clock.monotonic(), error)
            raise

    def latest(self, topic: str) -> tuple[int | str, str] | None:
        """Id and text of a topic's latest schema, asked for anew each time. Raises as the port says."""
        found = self._fetch_latest(topic)
        return None if found is None else (found[0], self._keep(*found))

    def _keep(self, schema_id: int | str, text: str) -> str:
        return self._known.setdefault(schema_id, text)

    @abstractmethod
    def _well_formed(self, schema_id: int | str) -> int | str: ...

    @abstractmethod
    def _fetch(self, schema_id: int | str) -> str: ...

    @abstractmethod
    def _fetch_latest(self, topic: str) -> tuple[int | str, str] | None: ...


class ConfluentRegistry(_CachedRegistry):
    """Confluent's REST API, also spoken by Apicurio (`/apis/ccompat/v7`), Karapace and Redpanda. Ids are numbers.

    Asks `GET /schemas/ids/{id}`, `GET /subjects/{subject}/versions/latest`, and for references
    `GET /subjects/{subject}/versions/{version}`. Referenced types are written into the schema where they are first
    used, so that every text stands alone.

    Args:
        client: of the registry's base URL.
        clock: for the time a refusal is believed.
        subject: subject of a topic's values, with `{topic}`.
    """

    def __init__(self, client: RestClient, clock: Clock, *, subject: str = "{topic}-value") -> None:
        super().__init__(clock)
        if "{topic}" not in subject:
            raise ConfigError("subject", subject, "text with {topic}")
        self._client = client
        self._subject = subject

    def _well_formed(self, schema_id: int | str) -> int | str:
        if not isinstance(schema_id, int):
            raise ConfigError("id_width", 4, "16 for ids in hex", f"The id {schema_id!r} is not a number.")
        if not 0 <= schema_id <= _LARGEST_ID:
            raise UnknownSchemaError(f"schema id {schema_id}: no registry hands out ids beyond 0 to {_LARGEST_ID}")
        return schema_id

    def _fetch(self, schema_id: int | str) -> str:
        answer = self._client.get(f"/schemas/ids/{schema_id}")
        if _error_code(answer) == _NO_SCHEMA:
            raise UnknownSchemaError(f"schema id {schema_id}: {answer.url} does not know it")
        return self._text(answer)

    def _fetch_latest(self, topic: str) -> tuple[int | str, str] | None:
        subject = quote(self._subject.format(topic=topic), safe="")
        answer = self._client.get(f"/subjects/{subject}/versions/latest")
        if _error_code(answer) in (_NO_SUBJECT, _NO_VERSION):
            return None
        schema_id = _body(answer).get("id")
        if not isinstance(schema_id, int):
            raise answer.nonsense("no id of the schema in it")
        return schema_id, self._text(answer)

    def _text(self, answer: Answer) -> str:
        body = _body(answer)
        kind, text = body.get("schemaType") or "AVRO", body.get("schema")
        if kind != "AVRO":
            raise UnusableSchemaError(f"{answer.url}: a schema of type {kind}; allowed: AVRO")
        if not isinstance(text, str):
            raise answer.nonsense("no schema in it")
        referenced = self._referenced(answer, body, {})
        if not referenced:
            return _checked(text, answer.url)
        try:
            return inline_references(text, list(referenced.values()))
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            where = ", ".join(f"{subject} version {version}" for subject, version in referenced)
            told = f"{type(error).__name__}: {error}"
            raise UnusableSchemaError(f"{answer.url}: no schema with its references {where}: {told}") from error

    def _referenced(
        self, asked: Answer, body: Mapping[str, Any], found: dict[tuple[str, str], str]
    ) -> dict[tuple[str, str], str]:
        """Texts of all schemas that this one builds on, their own references included."""
        references = body.get("references") or []
        if not isinstance(references, list):
            raise asked.nonsense(f"its references are {type(references).__name__}")
        for reference in references:
            if not isinstance(reference, dict) or not {"subject", "version"} <= reference.keys():
                raise asked.nonsense("a reference without subject and version")
            where = (str(reference["subject"]), str(reference["version"]))
            if where in found:
                continue
            if len(found) >= _MAX_REFERENCES:
                raise UnusableSchemaError(f"{asked.url}: a schema with more than {_MAX_REFERENCES} references")
            answer = self._client.get(f"/subjects/{quote(where[0], safe='')}/versions/{quote(where[1], safe='')}")
            inner = _body(answer)
            found[where] = str(inner.get("schema"))
            self._referenced(answer, inner, found)
        return found


class WideIdRegistry(_CachedRegistry):
    """The REST API of 16-byte ids that LinkedIn's registry, Gobblin and Pinot know. Ids are 32 hex digits.

    Asks `GET {base}/id={id}` and `GET {base}/latest_with_type={topic}`; other paths can be given. The body is the
    schema itself, or a JSON object with `schema` (text or object) and perhaps `id`. The id of a latest schema is its
    `id`, the digits behind `id=` in the `Location` header, or else the MD5 of the schema text, which is how such
    registries make their ids.

    Args:
        client: of the registry's base URL.
        clock: for the time a refusal is believed.
        path_by_id: path of an id, with `{id}`.
        path_latest: path of a topic's latest schema, with `{topic}`.
        not_found: text in the body of a 404 that shows it is the registry's own. By default a JSON object shows it;
            a page or an empty body may come from a proxy and counts as an outage.
    """

    def __init__(
        self,
        client: RestClient,
        clock: Clock,
        *,
        path_by_id: str = "/id={id}",
        path_latest: str = "/latest_with_type={topic}",
        not_found: str = "",
    ) -> None:
        super().__init__(clock)
        for key, path, name in (("path_by_id", path_by_id, "{id}"), ("path_latest", path_latest, "{topic}")):
            if name not in path:
                raise ConfigError(key, path, f"a path with {name}")
        self._client = client
        self._by_id, self._latest, self._not_found = path_by_id, path_latest, not_found

    def _well_formed(self, schema_id: int | str) -> int | str:
        return _hex_id(schema_id)

    def _fetch(self, schema_id: int | str) -> str:
        answer = self._client.get(self._by_id.format(id=schema_id))
        if self._says_no(answer):
            raise UnknownSchemaError(f"schema id {schema_id}: {answer.url} does not know it")
        return self._read(answer)[1]

    def _fetch_latest(self, topic: str) -> tuple[int | str, str] | None:
        answer = self._client.get(self._latest.format(topic=quote(topic, safe="")))
        if self._says_no(answer):
            return None
        schema_id, text = self._read(answer)
        return schema_id or hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), text

    def _says_no(self, answer: Answer) -> bool:
        if answer.status != 404:
            return False
        if self._not_found:
            return self._not_found in answer.text
        return isinstance(answer.json_or_none(), dict)

    def _read(self, answer: Answer) -> tuple[str, str]:
        body = _body(answer, wide=True)
        text: Any = answer.text
        if isinstance(body, Mapping) and "schema" in body:
            text = body["schema"] if isinstance(body["schema"], str) else json.dumps(body["schema"])
        told = str(body.get("id", "")) if isinstance(body, Mapping) else ""
        located = re.search(r"id=([0-9a-fA-F]{32})\b", answer.location)
        schema_id = located.group(1) if located else told
        return schema_id.lower() if re.fullmatch(r"[0-9a-fA-F]{32}", schema_id) else "", _checked(text, answer.url)


class MixedIdRegistry(SchemaRegistry):
    """One registry with both kinds of ids, for pipelines whose topics differ in it. An id tells its kind itself.

    Args:
        narrow: answers for ids that are numbers.
        wide: answers for ids of 16 bytes.
        is_wide: whether the values of a topic name their schemas by 16 bytes.
    """

    def __init__(self, narrow: SchemaRegistry, wide: SchemaRegistry, is_wide: Callable[[str], bool]) -> None:
        self._narrow, self._wide, self._is_wide = narrow, wide, is_wide

    def by_id(self, schema_id: int | str) -> str:
        """The schema of an id. Raises as the port says."""
        return (self._narrow if isinstance(schema_id, int) else self._wide).by_id(schema_id)

    def latest(self, topic: str) -> tuple[int | str, str] | None:
        """Id and text of a topic's latest schema, its id as wide as the topic's. Raises as the port says."""
        return (self._wide if self._is_wide(topic) else self._narrow).latest(topic)


class FolderRegistry(_CachedRegistry):
    """Schemas as files, for tests, demos and small shops; the folder may be on any store.

    Layout: `<id>.avsc` with a number or 32 hex digits; `<topic>.avsc` is a topic's latest schema. A hex id without a
    file of its name means the file, whatever it is called, whose bytes have this MD5. The id of a latest schema is
    that of the numbered or hex-named file with the same content, else its MD5.

    Args:
        store: rooted at the folder.
        clock: for the time a refusal is believed.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(clock)
        self._store = store

    def _well_formed(self, schema_id: int | str) -> int | str:
        return schema_id if isinstance(schema_id, int) else _hex_id(schema_id)

    def _fetch(self, schema_id: int | str) -> str:
        content = self._reach(self._store.get, f"{schema_id}.avsc")
        if content is None and isinstance(schema_id, str):
            content = next((data for _, data in self._files() if _md5(data) == schema_id), None)
        if content is None:
            raise UnknownSchemaError(f"schema id {schema_id}: no such file in {self._store.root}")
        return self._decoded(str(schema_id), content)

    def _fetch_latest(self, topic: str) -> tuple[int | str, str] | None:
        content = self._reach(self._store.get, f"{topic}.avsc")
        if content is None:
            return None
        same = [stem for stem, data in self._files() if data == content and re.fullmatch(r"\d+|[0-9a-f]{32}", stem)]
        named = min(same, key=lambda stem: (len(stem), stem), default=_md5(content))
        schema_id = int(named) if named.isdecimal() and len(named) < 32 else named
        return schema_id, self._decoded(topic, content)

    def _files(self) -> list[tuple[str, bytes]]:
        """Name without suffix and content of every schema file."""
        names = [file.name for file in self._reach(self._store.list, "") if file.name.endswith(".avsc")]
        contents = [(name.removesuffix(".avsc"), self._reach(self._store.get, name)) for name in names]
        return [(stem, data) for stem, data in contents if data is not None]

    def _decoded(self, stem: str, content: bytes) -> str:
        where = f"{self._store.root}/{stem}.avsc"
        try:
            return _checked(content.decode(), where)
        except UnicodeDecodeError as error:
            raise UnusableSchemaError(f"{where}: not UTF-8: {error}") from error

    def _reach(self, call: Callable[[str], R], path: str) -> R:
        try:
            return call(path)
        except StorageError as error:
            raise RegistryUnavailableError(f"the folder of schemas can't be read: {error}") from error


def _hex_id(schema_id: int | str) -> str:
    if not isinstance(schema_id, str):
        raise ConfigError("id_width", 16, "4 for ids that are numbers", f"The id {schema_id!r} is a number.")
    if not re.fullmatch(r"[0-9a-fA-F]{32}", schema_id):
        raise UnknownSchemaError(f"schema id {schema_id!r}: 32 hex digits are needed")
    return schema_id.lower()


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _error_code(answer: Answer) -> int | None:
    """The registry's own code in a refusal; None for success and for anybody else's error."""
    body = answer.json_or_none()
    code = body.get("error_code") if answer.status == 404 and isinstance(body, dict) else None
    return code if isinstance(code, int) else None


def _body(answer: Answer, *, wide: bool = False) -> Any:
    """The JSON body of a success; everything else is an outage."""
    if answer.status != 200:
        raise answer.nonsense("not the registry's own way to say that it has no such schema")
    body = answer.json_or_none()
    if not isinstance(body, dict) and not (wide and isinstance(body, str | list)):
        raise answer.nonsense("no JSON object")
    return body


def _checked(text: str, where: str) -> str:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableSchemaError(f"{where}: the schema is no JSON: {error}") from error
    if not isinstance(schema, str | list) and not (isinstance(schema, dict) and "type" in schema):
        raise UnusableSchemaError(f"{where}: the schema is {type(schema).__name__} without a type")
    return text

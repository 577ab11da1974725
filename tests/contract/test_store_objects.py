"""What only object stores do: conditions that are ignored, copies, listings from caches, missing buckets."""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager

import pytest
from werkzeug.serving import make_server

from airflow_kafka_hdfs.adapters.storage.objects import ObjectStore
from airflow_kafka_hdfs.adapters.storage.opening import StoreOptions, StoreUri, open_objects
from airflow_kafka_hdfs.adapters.storage.probe import probe
from airflow_kafka_hdfs.adapters.storage.retry import Patience
from airflow_kafka_hdfs.exceptions import StoreRefusedError, StoreUnavailableError, UnsafeStoreError
from tests.contract.stores import s3_bench, s3_filesystem

ONE_TRY = Patience(seconds=0)


@pytest.fixture
def store(s3) -> ObjectStore:
    return s3_bench(s3).open(patience=ONE_TRY)


def stage(store, path: str, data: bytes) -> int:
    writer = store.create(path)
    writer.write(data)
    writer.close()
    return len(data)


@contextmanager
def s3_with(change):
    """A moto server of its own whose requests go through a WSGI middleware."""
    from moto.server import DomainDispatcherApplication, create_backend_app

    requests: list[str] = []
    inner = DomainDispatcherApplication(create_backend_app)

    def application(environ, start_response):
        kind = "COPY" if "HTTP_X_AMZ_COPY_SOURCE" in environ else environ["REQUEST_METHOD"]
        requests.append(f"{kind} {environ['PATH_INFO']}")
        return change(environ, start_response, inner)

    server = make_server("127.0.0.1", 0, application, threaded=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def conditional_copy(environ, start_response, inner):
    """CopyObject with `If-None-Match: *`, as AWS does it and moto does not."""
    if "HTTP_X_AMZ_COPY_SOURCE" in environ and environ.pop("HTTP_IF_NONE_MATCH", "") == "*":
        plain = {name: value for name, value in environ.items() if not name.startswith("HTTP_X_AMZ_COPY")}
        if answer(inner, {**plain, "REQUEST_METHOD": "HEAD", "wsgi.input": io.BytesIO()})[0].startswith("200"):
            return refuse(start_response)
    return inner(environ, start_response)


def answer(inner, environ):
    """Status, headers and body of an inner answer."""
    head = []
    body = list(inner(environ, lambda status, headers, info=None: head.extend([status, headers])))
    return head[0], head[1], body


def refuse(start_response):
    body = b"<Error><Code>PreconditionFailed</Code><Message>a condition did not hold</Message></Error>"
    start_response("412 Precondition Failed", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def ignore_conditions(environ, start_response, inner):
    """An old clone of S3 that has never heard of `If-None-Match`."""
    return inner({name: value for name, value in environ.items() if name != "HTTP_IF_NONE_MATCH"}, start_response)


def anonymous_refusals(environ, start_response, inner):
    """A clone that does not say which condition failed."""
    status, headers, body = answer(inner, environ)
    if status.startswith("412"):
        return refuse(start_response)
    start_response(status, headers)
    return body


def test_a_store_that_honours_the_condition_copies_on_the_server(s3):
    with s3_with(conditional_copy) as (endpoint, requests):
        store = s3_bench(s3_filesystem(endpoint)).open(patience=ONE_TRY)
        probe(store)
        size = stage(store, "staging/a", b"content")
        requests.clear()
        assert store.promote("staging/a", "data/a", size) is True
        assert store.get("data/a") == b"content"
        assert any(request.startswith("COPY") for request in requests)
        assert not any(request.startswith("PUT") for request in requests)
        assert store.list("staging") == []


def test_a_store_that_ignores_the_condition_of_a_copy_gets_the_file_through_the_worker(store):
    size = stage(store, "staging/a", b"content")
    assert store.promote("staging/a", "data/a", size) is True
    assert store._copy_is_safe is False
    assert store.get("data/a") == b"content"
    assert [status.name for status in store.list("")] == ["data"]


def test_a_store_that_ignores_conditions_is_unsafe():
    with s3_with(ignore_conditions) as (endpoint, _):
        store = s3_bench(s3_filesystem(endpoint)).open(patience=ONE_TRY)
        with pytest.raises(UnsafeStoreError, match="created where one existed"):
            probe(store)
        assert store.list("") == []


def test_a_refusal_without_the_name_of_its_condition_is_understood():
    with s3_with(anonymous_refusals) as (endpoint, _):
        store = s3_bench(s3_filesystem(endpoint)).open(patience=ONE_TRY)
        probe(store)
        assert store.create_blindly("log/0", b"first") is True
        assert store.create_blindly("log/0", b"other") is False


def test_a_large_file_goes_up_in_parts_and_never_replaces_another():
    with s3_with(lambda environ, start_response, inner: inner(environ, start_response)) as (endpoint, requests):
        store = s3_bench(s3_filesystem(endpoint)).open(patience=ONE_TRY)
        data = bytes(range(256)) * 4096 * 20
        stage(store, "staging/a", data)
        assert sum(request.startswith("PUT") and request.endswith("staging/a") for request in requests) == 3
        assert store.promote("staging/a", "data/a", len(data)) is True
        assert store.get("data/a") == data
        stage(store, "staging/b", data[:-1])
        assert store.move_blindly("staging/b", "data/a") is False
        assert store.get("data/a") == data


def test_a_copy_whose_source_is_left_behind_is_finished(store):
    size = stage(store, "data/a", b"content")
    stage(store, "superseded/a", b"content")
    assert store.promote("data/a", "superseded/a", size) is True
    assert store.status("data/a") is None


@pytest.mark.bug(101)
def test_a_listing_is_not_taken_from_a_cache(s3):
    bench = s3_bench(s3)
    mine = bench.open()
    assert mine.list("log") == []
    bench.open().put_if_absent("log/0", b"record")
    assert [status.name for status in mine.list("log")] == ["0"]
    assert mine.status("log/0").size == 6


def test_a_missing_bucket_is_told_at_once(s3):
    store = ObjectStore(s3, "no-such-bucket/x", root="s3://no-such-bucket/x")
    with pytest.raises(StoreRefusedError, match="bucket"):
        store.put_if_absent("log/0", b"record")
    with pytest.raises(StoreRefusedError, match="bucket"):
        stage(store, "staging/a", b"content")
    assert store.get("log/0") is None


def test_an_endpoint_that_is_away_is_unavailable():
    uri = StoreUri.parse("s3://bucket/x")
    options = {"endpoint_url": "http://127.0.0.1:1", "key": "testing", "secret": "geheim"}
    options["config_kwargs"] = {"retries": {"max_attempts": 0}}  # the client's own would take ten seconds
    store = open_objects(uri, StoreOptions(timeout=2, patience=ONE_TRY), options)
    store._fs.retries = 1
    with pytest.raises(StoreUnavailableError) as answer:
        store.get("log/0")
    assert "geheim" not in str(answer.value)


def test_a_file_system_that_only_imitates_exclusive_creation_is_unsafe():
    from fsspec import AbstractFileSystem
    from fsspec.implementations.memory import MemoryFileSystem

    class Imitation(MemoryFileSystem):
        cachable = False
        pipe_file = AbstractFileSystem.pipe_file

    store = ObjectStore(Imitation(), "/imitation", root="memory://imitation")
    with pytest.raises(UnsafeStoreError, match="atomically"):
        probe(store)


def test_a_store_opened_by_uri_works(s3_endpoint, s3):
    s3.mkdir("by-uri")
    options = {"endpoint_url": s3_endpoint, "key": "testing", "secret": "testing"}
    store = open_objects(StoreUri.parse("s3://by-uri/a/b/"), StoreOptions(), options)
    assert store.put_if_absent("log/0", b"record") is True
    assert s3.cat_file("by-uri/a/b/log/0") == b"record"
    assert store.root == "s3://by-uri/a/b"

"""From a URI to a store, without Airflow: clients and their secrets are handed in.

file:///data, /data                     local or mounted disk
webhdfs://host:9870/data                WebHDFS, by a factory of `hdfs` clients
hdfs://nameservice/data, hdfs:///data   native RPC, by a factory of `hdfs-native` clients
s3://bucket/data and other schemes      object stores of fsspec, by storage options
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from airflow_kafka_hdfs.adapters.storage.hdfs import HdfsCalls, HdfsStore
from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.adapters.storage.paths import check_path
from airflow_kafka_hdfs.adapters.storage.probe import ProvableStore
from airflow_kafka_hdfs.adapters.storage.retry import Patience
from airflow_kafka_hdfs.exceptions import ConfigError, StoreRefusedError

LOCAL_SCHEMES = frozenset({"", "file", "local"})
WEBHDFS_SCHEMES = frozenset({"webhdfs", "swebhdfs"})
NATIVE_SCHEME = "hdfs"

_S3_SCHEMES = frozenset({"s3", "s3a"})
_URI = "file:///data, webhdfs:///data, hdfs://nameservice/data, s3://bucket/data"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUri:
    """The parts of a store's URI.

    Attributes:
        scheme: lower case, empty for a plain path.
        authority: host and port, name service, or bucket; may be empty.
        path: absolute, without a slash at its end; `/` is the root.
    """

    scheme: str
    authority: str
    path: str

    @classmethod
    def parse(cls, uri: str) -> StoreUri:
        """Take a URI apart. Nothing is decoded but `%xx` in file URIs, as in Hadoop and fsspec.

        Raises:
            ConfigError: user or password in it, a relative path, `.` or `..`, characters that no store can hold.
        """
        scheme, separator, rest = uri.partition("://")
        if not separator:
            scheme, rest = "", uri
        authority, slash, path = ("", "/", rest[1:]) if not separator and rest[:1] == "/" else rest.partition("/")
        if "@" in authority:
            shown = f"{scheme}://…@{authority.rpartition('@')[2]}{slash}{path}"
            raise ConfigError("uri", shown, _URI, "User and password belong into the connection.")
        if not slash and (not separator or scheme.lower() in LOCAL_SCHEMES):
            raise ConfigError("uri", uri, _URI, "A path must be absolute: workers have folders of their own.")
        if scheme.lower() in LOCAL_SCHEMES and separator:
            path = unquote(path)
        path = path.rstrip("/")
        try:
            if path:
                check_path("open", path)
        except StoreRefusedError as error:
            raise ConfigError("uri", uri, _URI, f"{error.detail}.") from None
        return cls(scheme=scheme.lower(), authority=authority, path=f"/{path}")

    def __str__(self) -> str:
        return (f"{self.scheme}://{self.authority}" if self.scheme else "") + self.path.rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How a store is to behave.

    Attributes:
        file_mode: permission bits of new files, None for the store's.
        dir_mode: permission bits of new folders, None for the store's.
        timeout: seconds for one request.
        patience: how long one call goes on trying while the store is away.
    """

    file_mode: int | None = None
    dir_mode: int | None = None
    timeout: float = 30.0
    patience: Patience = field(default_factory=Patience)


def parse_mode(key: str, value: int | str | None, *, least: int) -> int | None:
    """Permission bits.

    Args:
        key: name of the argument, for messages.
        value: a number (`0o640`) or octal digits (`'640'`); None stays None.
        least: bits that must be set, so that the owner can work with what was made.

    Raises:
        ConfigError: no such number, or one that looks like octal digits written in decimal.
    """
    if value is None:
        return None
    try:
        mode = int(value, 8) if isinstance(value, str) else int(value)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o7777 or mode & least != least:
        allowed = f"permission bits that give the owner at least {least:o}, written 0o750 or '750'"
        raise ConfigError(key, value, allowed)
    return mode


def open_local(uri: StoreUri, options: StoreOptions) -> ProvableStore:
    """A store on local or mounted disk.

    Raises:
        ConfigError: the URI names another host.
    """
    if uri.authority not in ("", "localhost"):
        raise ConfigError("uri", str(uri), "file:///folder (three slashes), or /folder")
    return LocalStore(uri.path, file_mode=options.file_mode, dir_mode=options.dir_mode)


def open_webhdfs(uri: StoreUri, options: StoreOptions, connect: Callable[[], Any] | None = None) -> ProvableStore:
    """A store on HDFS over WebHDFS.

    Args:
        uri: its root.
        options: how it behaves.
        connect: makes an `hdfs.Client` for the active name node whose requests have a time-out; called again after
            a standby answer, a connection error or a time-out. None: for the authority, without log-in.

    Raises:
        ConfigError: neither `connect` nor an authority.
    """
    from airflow_kafka_hdfs.adapters.storage.webhdfs import WebHdfsCalls

    return _hdfs(WebHdfsCalls(connect or _insecure(uri, options), uri.path, timeout=options.timeout), uri, options)


def open_native(uri: StoreUri, options: StoreOptions, connect: Callable[[], Any]) -> ProvableStore:
    """A store on HDFS by native RPC.

    Args:
        uri: its root.
        options: how it behaves.
        connect: makes an `hdfs_native.Client`; called again after a connection error or a time-out.
    """
    from airflow_kafka_hdfs.adapters.storage.native import NativeCalls

    return _hdfs(NativeCalls(connect, uri.path, timeout=options.timeout), uri, options)


def open_objects(
    uri: StoreUri, options: StoreOptions, storage_options: Mapping[str, Any] | None = None
) -> ProvableStore:
    """A store on an object store of fsspec.

    Args:
        uri: bucket and prefix.
        options: how it behaves; objects have no modes.
        storage_options: arguments of the file system class (`key`, `secret`, `endpoint_url`, …).

    Raises:
        ConfigError: an unknown scheme, a missing library, options that the file system does not take, or a mode.
    """
    from airflow_kafka_hdfs.adapters.storage.objects import ObjectStore

    for key in ("file_mode", "dir_mode"):
        if (mode := getattr(options, key)) is not None:
            raise ConfigError(key, oct(mode), "None", f"Stores of the kind {uri.scheme}:// have no permission bits.")
    if not uri.authority:
        raise ConfigError("uri", str(uri), f"{uri.scheme}://bucket/prefix")
    settings: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False, **(storage_options or {})}
    if uri.scheme in _S3_SCHEMES:
        timeouts = {"connect_timeout": options.timeout, "read_timeout": options.timeout}
        settings["config_kwargs"] = {**timeouts, **settings.get("config_kwargs", {})}
    filesystem = _filesystem(uri, settings)
    prefix = str(filesystem._strip_protocol(str(uri)))  # noqa: SLF001 - fsspec's own way for subclasses and users
    return ObjectStore(filesystem, prefix, root=str(uri), patience=options.patience)


def _hdfs(calls: HdfsCalls, uri: StoreUri, options: StoreOptions) -> HdfsStore:
    return HdfsStore(
        calls, root=str(uri), file_mode=options.file_mode, dir_mode=options.dir_mode, patience=options.patience
    )


def _insecure(uri: StoreUri, options: StoreOptions) -> Callable[[], Any]:
    from hdfs import InsecureClient

    if not uri.authority:
        raise ConfigError(
            "uri", str(uri), f"{uri.scheme}://host:9870/folder", "There is no connection to take it from."
        )
    address = f"{'https' if uri.scheme == 'swebhdfs' else 'http'}://{uri.authority}"
    return lambda: InsecureClient(address, timeout=options.timeout)


def _filesystem(uri: StoreUri, settings: Mapping[str, Any]) -> Any:
    try:
        import fsspec
    except ImportError:
        hint = "pip install 'airflow-provider-kafka-hdfs[object-store]', or [s3]."
        raise ConfigError("uri", str(uri), _URI, f"fsspec is not installed: {hint}") from None
    try:
        return fsspec.filesystem(uri.scheme, **settings)
    except ImportError as error:
        raise ConfigError("uri", str(uri), _URI, f"The library of this store is not installed: {error}.") from None
    except ValueError as error:
        raise ConfigError("uri", str(uri), _URI, f"fsspec: {error}.") from None
    except TypeError as error:
        names = ", ".join(sorted(settings))
        raise ConfigError("storage options", names, f"what {uri.scheme}:// takes", f"fsspec: {error}.") from None

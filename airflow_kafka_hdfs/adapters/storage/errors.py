"""What stores answer, in our words: worth another try or not, and what to do next."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_kafka_hdfs.exceptions import StorageError, StoreRefusedError, StoreUnavailableError

_PERMISSION = "grant the user of the connection access to the folder, or use another connection"
_QUOTA = "raise the quota or make room, then clear the task"
_SPACE = "make room on the store, then clear the task"
_KIND = "another kind of file stands on the way; data folders hold our files only, move it away"
_NAME = "the store can't hold this name; shorten or escape it"

# Everything else that the operating system answers may pass: network file systems fall away and come back.
_REFUSED_ERRNO = {
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "the file system is read-only; mount it for writing",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _QUOTA,
    errno.EFBIG: "the file is too large for this file system; lower max_file_bytes",
    errno.ENAMETOOLONG: _NAME,
    errno.EINVAL: _NAME,
    errno.ELOOP: "symbolic links go round in a circle",
    errno.ENOTDIR: _KIND,
    errno.EISDIR: _KIND,
    errno.ENOTEMPTY: "the folder is not empty; delete it with recursive=True",
    errno.EXDEV: "source and target lie on different file systems; keep the whole root on one",
    errno.ENOTSUP: "a store that never replaces files needs this; use another file system, or one user for all tasks",
    errno.ENOSYS: "the file system lacks an operation that is needed; use another one",
}

# Exceptions of HDFS by simple class name. Others (standby, safe mode, leases, missing replicas) may pass.
_REFUSED_HADOOP = {
    "AccessControlException": _PERMISSION,
    "AuthorizationException": "the user may not act for another one, or not on this cluster; see hadoop.proxyuser.*",
    "SecurityException": "log-in failed; see user and credentials of the connection",
    "InvalidToken": "the delegation token is not valid any more; get a new one",
    "NSQuotaExceededException": _QUOTA,
    "DSQuotaExceededException": _QUOTA,
    "QuotaByStorageTypeExceededException": _QUOTA,
    "QuotaExceededException": _QUOTA,
    "ParentNotDirectoryException": _KIND,
    "PathIsNotDirectoryException": _KIND,
    "FileAlreadyExistsException": _KIND,
    "PathIsNotEmptyDirectoryException": "the folder is not empty; delete it with recursive=True",
    "InvalidPathException": _NAME,
    "IllegalArgumentException": _NAME,
    "PathComponentTooLongException": _NAME,
    "MaxDirectoryItemsExceededException": "the folder is full; use a finer path pattern",
    "UnresolvedPathException": "symbolic links are not followed",
    "UnsupportedOperationException": "the server does not offer this operation",
    # of hdfs-native itself
    "InvalidArgument": "see the Hadoop configuration (HADOOP_CONF_DIR, or config_dir of the connection)",
    "InvalidPath": _NAME,
    "UrlParseError": "see the address in the URI or the connection",
    "XmlParseError": "the Hadoop configuration can't be read",
    "UnsupportedFeature": "the native client can't do that; use webhdfs://",
    "UnsupportedErasureCodingPolicy": "the native client can't do that; use webhdfs://",
    "SASLError": "log-in failed; see the ticket cache or keytab of the connection",
    "GSSAPIError": "log-in failed; see the ticket cache or keytab of the connection",
    "NoSASLMechanism": "client and cluster share no way to log in; see hadoop.security.authentication",
}

_HADOOP_NAME = re.compile(r"\b(?:[a-z_0-9]+\.)+(?:[A-Z]\w*\$)?([A-Z]\w*)")


def from_os_error(action: str, path: str, error: OSError) -> StorageError:
    """The error of ours for one of the operating system (or of a library that speaks its language).

    Args:
        action: what was tried.
        path: relative path.
        error: by its `errno`, or by its class where it has none.
    """
    code = error.errno or _code_of(error)
    text = error.strerror or _first_line(str(error)) or type(error).__name__
    if code in _REFUSED_ERRNO:
        return StoreRefusedError(action, path, f"{text}; {_REFUSED_ERRNO[code]}")
    return StoreUnavailableError(action, path, f"{text}; the store may be away for a moment, try again")


def from_hadoop(action: str, path: str, exception: str, message: str) -> StorageError:
    """The error of ours for one of HDFS.

    Args:
        action: what was tried.
        path: relative path.
        exception: simple class name, empty if the server named none.
        message: text of the server; its first line is kept.
    """
    text = f"{exception}: {_first_line(message)}" if exception else _first_line(message)
    if exception in _REFUSED_HADOOP:
        return StoreRefusedError(action, path, f"{text}; {_REFUSED_HADOOP[exception]}")
    return StoreUnavailableError(action, path, f"{text}; {_hint(exception)}")


def hadoop_exception(text: str) -> str:
    """Simple name of the first Java class in a text, empty if there is none."""
    found = _HADOOP_NAME.search(text)
    return found.group(1) if found else ""


@contextmanager
def os_errors(action: str, path: str) -> Iterator[None]:
    """Turns what the operating system raises in the body into errors of ours."""
    try:
        yield
    except OSError as error:
        raise from_os_error(action, path, error) from error


def _code_of(error: OSError) -> int | None:
    for kind, code in (
        (PermissionError, errno.EACCES),
        (IsADirectoryError, errno.EISDIR),
        (NotADirectoryError, errno.ENOTDIR),
    ):
        if isinstance(error, kind):
            return code
    return None


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0].strip()[:500]


def _hint(exception: str) -> str:
    if exception == "SafeModeException":
        return "the name node is in safe mode; wait, or see `hdfs dfsadmin -safemode get`"
    if exception == "StandbyException":
        return "this name node is not the active one; see `hdfs haadmin -getAllServiceState`"
    return "the store may be away for a moment, try again"

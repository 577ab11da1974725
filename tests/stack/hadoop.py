"""Files that Hadoop's processes want: settings, and what the published jars lack."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from tests.stack.java import cache_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOG4J = """\
log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
log4j.logger.org.apache.hadoop.hdfs.StateChange=INFO
log4j.logger.BlockStateChange=WARN
"""


def resources_jar() -> Path:
    """A jar with what Hadoop looks for on the class path and the published jars lack.

    These are the settings of the log, and the folders of the web pages, without which neither node starts.
    """
    content = {"webapps/": "", "log4j.properties": _LOG4J}
    for pages in ("hdfs", "datanode"):  # with entries for the folders: they are what is looked for
        content |= {f"webapps/{pages}/": "", f"webapps/{pages}/WEB-INF/web.xml": "<web-app></web-app>\n"}
    digest = hashlib.sha256(repr(content).encode()).hexdigest()[:12]
    path = cache_folder() / "files" / f"hdfs-resources-{digest}.jar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as jar:
            for name, text in content.items():
                jar.writestr(name, text)
        Path(scratch).replace(path)
    return path


def configuration_xml(properties: Mapping[str, str]) -> str:
    """Settings in the form of `core-site.xml`."""
    entry = "  <property><name>{}</name><value>{}</value></property>\n"
    entries = "".join(entry.format(escape(name), escape(value)) for name, value in properties.items())
    return f'<?xml version="1.0"?>\n<configuration>\n{entries}</configuration>\n'

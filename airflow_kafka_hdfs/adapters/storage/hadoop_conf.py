"""What the Hadoop configuration files of this machine say, as far as a client's settings depend on it."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

_FILES = ("core-site.xml", "hdfs-site.xml")


def conf_dir(given: str | None) -> Path | None:
    """The folder of the configuration: the given one, else HADOOP_CONF_DIR, else etc/hadoop below HADOOP_HOME."""
    if given:
        return Path(given)
    if folder := os.environ.get("HADOOP_CONF_DIR"):
        return Path(folder)
    home = os.environ.get("HADOOP_HOME")
    return Path(home, "etc", "hadoop") if home else None


def read_property(name: str, given: str | None = None) -> str | None:
    """Value of a property; None if no file sets it or the files can't be read.

    Args:
        name: like `fs.defaultFS`.
        given: folder of the configuration, None for the environment's.
    """
    folder = conf_dir(given)
    if folder is None:
        return None
    value = None
    for file in _FILES:
        try:
            root = ElementTree.parse(folder / file).getroot()  # noqa: S314 - the administrator's own file
        except (OSError, ElementTree.ParseError):
            continue
        for entry in root.iter("property"):
            if (entry.findtext("name") or "").strip() == name:
                value = (entry.findtext("value") or "").strip()
    return value

"""The surroundings of a dataset in formats of other tools: GraphML and Mermaid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from airflow_kafka_hdfs.lineage.views import DatasetView, GraphView, JobView
from airflow_kafka_hdfs.ports.lineage import PairState

_GRAPHML_NODE = ("namespace", "name", "owners", "flags")


def graphml(graph: GraphView) -> str:
    """The graph in GraphML, as yEd, Gephi and NetworkX read it."""
    return "\n".join(_graphml(graph)) + "\n"


def _graphml(graph: GraphView) -> Iterator[str]:
    jobs = {job.id: job for job in graph.jobs}
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    for key in _GRAPHML_NODE:
        yield f'<key id="{key}" for="node" attr.name="{key}" attr.type="string"/>'
    yield '<key id="distance" for="node" attr.name="distance" attr.type="int"/>'
    yield '<key id="jobs" for="edge" attr.name="jobs" attr.type="string"/>'
    yield '<key id="state" for="edge" attr.name="state" attr.type="string"/>'
    yield '<graph edgedefault="directed">'
    for node in graph.nodes:
        view = node.dataset
        values = (view.namespace, view.name, " ".join(view.owners), " ".join(view.flags))
        data = "".join(
            f'<data key="{key}">{escape(_plain(v))}</data>' for key, v in zip(_GRAPHML_NODE, values, strict=True)
        )
        yield f'<node id={quoteattr(view.id)}>{data}<data key="distance">{node.distance}</data></node>'
    for link in graph.links:
        names = escape(_plain(" ".join(_job_name(jobs.get(job_id)) for job_id in link.jobs)))
        ends = f"source={quoteattr(link.source)} target={quoteattr(link.target)}"
        yield f'<edge {ends}><data key="jobs">{names}</data><data key="state">{escape(link.state)}</data></edge>'
    yield "</graph>"
    yield "</graphml>"


def mermaid(graph: GraphView) -> str:
    """The graph as a Mermaid flow chart, as Markdown pages show it."""
    return "\n".join(_mermaid(graph)) + "\n"


def _mermaid(graph: GraphView) -> Iterator[str]:
    jobs = {job.id: job for job in graph.jobs}
    numbers = {node.dataset.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    yield "flowchart LR"
    for node in graph.nodes:
        yield f'    {numbers[node.dataset.id]}["{_quoted(dataset_name(node.dataset))}"]'
    for link in graph.links:
        arrow = "-->" if link.state == PairState.WRITTEN else "-.->"
        names = _quoted(", ".join(_job_name(jobs.get(job_id)) for job_id in link.jobs))
        yield f'    {numbers[link.source]} {arrow}|"{names}"| {numbers[link.target]}'


def dataset_name(view: DatasetView) -> str:
    """A dataset in one text."""
    if view.restricted:
        return "restricted"
    return f"{view.namespace}{'' if view.name.startswith('/') else '/'}{view.name}"


def _job_name(job: JobView | None) -> str:
    return "restricted" if job is None or job.restricted else job.dag_id


def _quoted(text: str) -> str:
    """Characters that end a label, start markup in one, or are obeyed by terminals, as entities."""
    return re.sub(r'["<>&#`\x00-\x1f\x7f-\x9f]', lambda found: f"#{ord(found[0])};", text)


def _plain(text: str) -> str:
    """Without characters that XML cannot hold or advises against."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)

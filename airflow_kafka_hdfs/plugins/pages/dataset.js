// One dataset: where it comes from, where it goes, what is in it, who answers for it.

import { get } from "./api.js";
import { copy, datasetLink, facts, flags, fullName, h, into, jobLink, listed, nothing, outcome, outside, page, plural, query, section, shortName, table, when } from "./dom.js";

export async function show(main) {
  const id = query("id");
  if (!id) return main.append(nothing("Which dataset?", "Search for one above."));
  const place = h("div", {});
  main.append(place);
  await into(place, "the dataset", () => Promise.all([get(`datasets/${encodeURIComponent(id)}`), get("popularity", { dataset: id }).catch(() => null)]), ([answer, popular]) => whole(answer, popular));
  return undefined;
}

function whole(answer, popular) {
  const { dataset } = answer;
  document.title = `${shortName(dataset)} – Lineage`;
  return [
    h(
      "div",
      { class: "head" },
      h("div", {}, h("h1", {}, shortName(dataset), " ", flags(dataset.flags)), h("p", { class: "where" }, fullName(dataset), " ", h("button", { type: "button", class: "link-like", onclick: () => copy(fullName(dataset), "Name copied") }, "copy"))),
      h(
        "div",
        { class: "buttons" },
        h("a", { class: "button first", href: page("graph", { node: dataset.id }) }, "Graph"),
        h("a", { class: "button", href: page("impact", { node: dataset.id }) }, "Impact"),
        h("a", { class: "button", href: page("incident", { dataset: dataset.id }) }, "Incident"),
      ),
    ),
    facts([
      ["Owner", listed(dataset.owners, "unknown")],
      ["Team", listed(dataset.teams)],
      ["Steward", listed(answer.responsibilities.map((one) => h("span", { title: `${one.role}, from ${one.origin}` }, one.party)), "none named")],
      ["Written", when(dataset.last_written)],
      ["First seen", when(dataset.first_seen)],
      ["Schema", dataset.schema_version || dataset.schema_id ? `version ${dataset.schema_version || "?"}, id ${dataset.schema_id || "?"}` : h("span", { class: "faint" }, "unknown")],
      popular && ["Read, 30 days", popular.runs ? `${plural(popular.runs, "run")} of ${plural(popular.readers, "job")}` : "not at all"],
      answer.aliases.length ? ["Also called", listed(answer.aliases.map(([namespace, name]) => `${namespace}/${name.replace(/^\/+/, "")}`))] : null,
    ]),
    h(
      "div",
      { class: "columns" },
      section("Where from", near("Upstream datasets", answer.upstream, answer.upstream_total, "No source is known", "No job that ran wrote it from another dataset."), behind("Written by", answer.writers, answer.writers_restricted)),
      section("Where to", near("Downstream datasets", answer.downstream, answer.downstream_total, "Nothing reads it", "No job that ran read it into another dataset."), behind("Read by", answer.readers, answer.readers_restricted)),
    ),
    columns(answer),
    section("Runs that wrote it", answer.runs.length ? runTable(answer.runs) : nothing("No runs", "No run that you may see wrote it.")),
    answer.schemas.length > 1 ? section("Schema history", table("Schema versions", [["Version", (one) => one.schema_version || "?"], ["Id", (one) => h("code", {}, one.schema_id)], ["Columns", (one) => one.columns.length, "number"], ["Seen", (one) => when(one.seen)]], answer.schemas)) : null,
  ];
}

function near(caption, neighbours, total, title, text) {
  if (!neighbours.length) return nothing(title, text);
  const shown = table(caption, [["Dataset", (one) => [datasetLink(one.dataset), " ", flags(one.dataset.flags)]], ["Through", (one) => listed(one.jobs.map(jobLink))], ["Owner", (one) => listed(one.dataset.owners ?? [], "")]], neighbours);
  const more = (total ?? 0) - neighbours.length;
  return more > 0 ? [shown, h("p", { class: "faint" }, `and ${plural(more, "dataset")} more: see the list under Impact.`)] : shown;
}

function behind(text, jobs, restricted) {
  if (!jobs.length && !restricted) return null;
  return h("p", { class: "faint" }, `${text} `, listed(jobs.map(jobLink), "no job that you may read"), restricted ? ` and ${plural(restricted, "job")} that you may not read` : "", ".");
}

function columns(answer) {
  const [newest] = answer.schemas;
  const known = new Map((newest?.columns ?? []).map(([name, kind, text]) => [name, { name, kind, text, into: [], out: [] }]));
  const of = (name) => known.get(name) ?? known.set(name, { name, kind: "", text: "", into: [], out: [] }).get(name);
  answer.columns_in.forEach((one) => of(one.column).into.push(one));
  answer.columns_out.forEach((one) => of(one.column).out.push(one));
  if (!known.size) return section("Columns", nothing("No columns known", "No run told of a schema or of column lineage."));
  const links = (list) => listed(list.map((one) => h("span", { title: `${one.direct ? "direct" : "indirect"} ${one.subtype}${one.masking ? ", masked" : ""}` }, datasetLink(one.dataset)[0] ?? "restricted", `.${one.other_column}`)), "");
  return section(
    "Columns",
    table("Columns", [["Column", (one) => h("code", {}, one.name)], ["Type", (one) => one.kind], ["Description", (one) => one.text], ["From", (one) => links(one.into)], ["To", (one) => links(one.out)]], [...known.values()]),
  );
}

/** Runs with their outcomes and a link into Airflow. */
export function runTable(runs, { withJob = true } = {}) {
  return table(
    "Runs",
    [
      ["Outcome", (run) => outcome(run.outcome)],
      withJob ? ["Job", (run) => h("a", { href: page("job", { id: run.job_id }) }, run.dag_id)] : null,
      ["Run", (run) => [run.link ? outside(run.link, run.run_id) : run.run_id, run.incomplete.length ? h("span", { class: "flag failing", title: run.incomplete.join(", ") }, "incomplete") : null]],
      ["Date", (run) => h("time", { datetime: run.run_date }, run.run_date.slice(0, 16).replace("T", " "))],
      ["Ended", (run) => when(run.ended_at, "not yet")],
      ["Pairs", (run) => run.pairs.toLocaleString("en"), "number"],
      ["Versions", (run) => h("span", { class: "faint" }, Object.entries(run.versions).filter(([, text]) => text).map(([name, text]) => `${name} ${text}`).join(", "))],
    ].filter(Boolean),
    runs,
  );
}

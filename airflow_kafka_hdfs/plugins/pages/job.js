// One job, on its own page and as a tab of a DAG or a run.

import { get } from "./api.js";
import { datasetLink, facts, flags, h, into, listed, nothing, outcome, outside, page, plural, query, remember, section, table, when } from "./dom.js";
import { runTable } from "./dataset.js";

const PAIRS = 100;

export async function show(main) {
  const id = query("id");
  if (!id) return main.append(nothing("Which job?", "Search for one above."));
  const place = h("div", {});
  main.append(place);
  await into(place, "the job", () => get(`jobs/${encodeURIComponent(id)}`), (answer) => whole(answer, query("run_id")));
  return undefined;
}

/** The tab of a DAG or run in Airflow. */
export async function showDag(main) {
  const dag = query("dag_id");
  const run = query("run_id");
  const place = h("div", {});
  main.append(place);
  const ask = () =>
    get(`jobs/by-dag/${encodeURIComponent(dag)}`).catch((error) => {
      if (error.status === 404) return null;
      throw error;
    });
  await into(place, "the lineage of this DAG", ask, (answer) =>
    answer
      ? whole(answer, run)
      : nothing("No lineage of this DAG yet", "It appears once a run has finished and was loaded. A DAG contributes when its tasks declare inlets and outlets, or when their hooks report what they read and write. If runs have finished, see on the ", h("a", { href: page("") }, "overview"), " when lineage was last loaded."),
  );
}

function whole(answer, runId) {
  const { job } = answer;
  document.title = `${job.dag_id} – Lineage`;
  const run = answer.runs.find((one) => one.run_id === runId);
  const pairs = h("div", {});
  loadPairs(pairs, job.id, runId, 0);
  return [
    h(
      "div",
      { class: "head" },
      h("div", {}, h("h1", {}, job.dag_id, " ", flags(job.flags)), h("p", { class: "where" }, `${job.instance}${job.domain ? ` · ${job.domain}` : ""}`, job.description ? ` · ${job.description}` : "")),
      h("div", { class: "buttons" }, job.link ? outside(job.link, h("span", { class: "button first" }, "Open the DAG")) : null, answer.outputs[0] && !answer.outputs[0].restricted ? h("a", { class: "button", href: page("graph", { node: answer.outputs[0].id }) }, "Graph") : null),
    ),
    runId ? h("p", { class: "note" }, "Run ", h("b", {}, runId), run ? [": ", outcome(run.outcome), `, ${plural(run.pairs, "pair")}`] : ": not among the newest runs; its pairs are below if it was loaded.") : null,
    facts([
      ["Owner", listed(job.owners, "unknown")],
      ["Team", job.team || h("span", { class: "faint" }, "none")],
      ["Steward", listed(answer.responsibilities.filter((one) => one.role !== "owner").map((one) => one.party), "none named")],
      ["Runs", job.frequency],
      ["Last run", [outcome(job.last_outcome), " ", when(job.last_run)]],
      ["First seen", when(job.first_seen)],
      ["Tags", listed(job.tags)],
      ["File", job.config_file ? link(job.config_file) : h("span", { class: "faint" }, "unknown")],
    ]),
    h("div", { class: "columns" }, section("Reads", datasets("Datasets it reads", answer.inputs, "reads")), section("Writes", datasets("Datasets it writes", answer.outputs, "writes"))),
    section(runId ? "Pairs of this run" : "Pairs", pairs),
    section("Runs", answer.runs.length ? runTable(answer.runs, { withJob: false }) : nothing("No runs yet", "No run of it was loaded."), answer.kept_since ? h("p", { class: "note" }, "Older runs than ", when(answer.kept_since), " have been deleted, but the last one.") : null),
    comparison(job),
    answer.versions.length ? section("Structures", table("Structures of the job", [["DAG version", (one) => one.dag_version || "?"], ["Bundle", (one) => [one.bundle, one.bundle_version ? h("code", {}, ` ${one.bundle_version.slice(0, 12)}`) : ""]], ["From", (one) => when(one.valid_from)], ["To", (one) => when(one.valid_to)], ["Structure", (one) => h("code", {}, one.structure_hash.slice(0, 12))]], answer.versions)) : null,
  ];
}

/** A file's address as a link if it is a web address; anything else stays text. */
function link(text) {
  return /^https?:\/\//i.test(text) ? h("a", { href: text, rel: "noreferrer noopener", target: "_blank" }, text) : h("code", {}, text);
}

function datasets(caption, items, what) {
  if (!items.length) return nothing(`It ${what} nothing that is known`, "Give its tasks inlets and outlets, or use hooks that report lineage.");
  return table(caption, [["Dataset", (one) => datasetLink(one)], ["Flags", (one) => flags(one.flags)], ["Written", (one) => (one.restricted ? "" : when(one.last_written))]], items);
}

function loadPairs(place, jobId, runId, offset) {
  return into(place, "the pairs", () => get(`jobs/${encodeURIComponent(jobId)}/pairs`, { run_id: runId, limit: PAIRS, offset }), (found) => {
    if (!found.total) return nothing("No pairs", runId ? "This run was not loaded yet, or no dataset of it leads to another one." : "No dataset that it reads leads to one that it writes.");
    const more = found.offset + found.items.length < found.total || found.offset > 0;
    return [
      table(
        "Pairs",
        [
          ["Source", (one) => datasetLink(one.source)],
          ["Target", (one) => datasetLink(one.target)],
          ["State", (one) => h("span", { class: `state ${one.state === "written" ? "success" : one.state === "failed" ? "failed" : ""}` }, one.state)],
          ["Evidence", (one) => one.evidence.join(", ")],
          runId ? ["Through tasks", (one) => h("span", { class: "faint" }, one.path.join(" → "))] : ["Last written", (one) => when(one.last_success)],
          runId ? null : ["Valid", (one) => (one.valid_to ? ["until ", when(one.valid_to)] : "yes")],
        ].filter(Boolean),
        found.items,
      ),
      more
        ? h(
            "p",
            { class: "pages" },
            `${found.offset + 1} to ${found.offset + found.items.length} of ${found.total.toLocaleString("en")} `,
            h("button", { type: "button", disabled: !found.offset, onclick: () => loadPairs(place, jobId, runId, Math.max(0, offset - PAIRS)) }, "Previous"),
            h("button", { type: "button", disabled: found.offset + found.items.length >= found.total, onclick: () => loadPairs(place, jobId, runId, offset + PAIRS) }, "Next"),
          )
        : null,
    ];
  });
}

function comparison(job) {
  const month = new Date(Date.now() - 30 * 86400000).toISOString().slice(0, 10);
  const at = h("input", { type: "date", value: query("at", month), "aria-label": "Earlier date" });
  const other = h("input", { type: "date", value: query("with", new Date().toISOString().slice(0, 10)), "aria-label": "Later date" });
  const place = h("div", {});
  const compare = () => {
    remember({ at: at.value, with: other.value });
    return into(place, "the comparison", () => get(`jobs/${encodeURIComponent(job.id)}/compare`, { at: at.value, with: other.value }), compared);
  };
  if (query("at")) compare();
  return section("Compare two dates", h("div", { class: "filters" }, at, other, h("button", { type: "button", onclick: compare }, "Compare")), place);
}

function compared(found) {
  if (!found.at && !found.with) return nothing("No runs", "There was no run on or before either date.");
  const about = h("p", { class: "faint" }, "Run ", found.at?.run_id ?? "none", " against ", found.with?.run_id ?? "none", ".");
  if (!found.changes.length && !found.gained.length && !found.lost.length) return [about, nothing("Nothing changed", "Versions, owners, structure, inputs and outputs are the same.")];
  const pairs = [...found.gained.map((pair) => ["gained", pair]), ...found.lost.map((pair) => ["lost", pair])];
  return [
    about,
    found.changes.length ? table("Changes", [["What", (one) => `${one.what} ${one.name}`], ["Before", (one) => one.before || h("span", { class: "faint" }, "none")], ["After", (one) => one.after || h("span", { class: "faint" }, "none")]], found.changes) : null,
    pairs.length ? table("Pairs gained and lost", [["Pair", ([kind]) => kind], ["Source", ([, pair]) => datasetLink(pair[0])], ["Target", ([, pair]) => datasetLink(pair[1])]], pairs) : null,
  ];
}

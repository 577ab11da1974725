// The start page, and the lists of datasets and jobs.

import { get } from "./api.js";
import { datasetLink, flags, h, into, jobLink, listed, nothing, outcome, page, plural, query, remember, section, table, when } from "./dom.js";
import { searchField } from "./search.js";

const SHOWN = 50;

export async function start(main) {
  const place = h("div", {});
  main.append(
    h(
      "div",
      { class: "hero" },
      h("h1", {}, "What feeds what"),
      h("p", {}, "Find a table, a topic or a job; see where its data comes from and whom a change would reach."),
      searchField({ label: "Find a dataset or a job", placeholder: "orders, hdfs lake, team …" }),
    ),
    place,
  );
  await into(place, "the overview", () => Promise.all([get("stats"), get("popularity", { limit: 8 })]), ([stats, popular]) => overview(stats, popular.items));
}

function overview(stats, popular) {
  if (!stats.datasets && !stats.jobs) {
    return stats.last_loaded
      ? nothing("No lineage that you may see", "There is some, but only of DAGs that you may not read. Ask for the right to read them.")
      : nothing(
          "No lineage yet",
          "Nothing was loaded into the warehouse so far. Let a DAG with inlets and outlets finish a run, and see that the loader runs: ",
          h("code", {}, "airflow kafka-hdfs lineage load"),
          ".",
        );
  }
  return [
    h(
      "div",
      { class: "tiles" },
      tile(stats.datasets, "datasets", page("datasets")),
      tile(stats.jobs, "jobs", page("jobs")),
      tile(stats.failing_total, "failing jobs", null, stats.failing_total ? "bad" : ""),
      tile(stats.deprecated_total, "deprecated jobs", null, stats.deprecated_total ? "warn" : ""),
      h("div", { class: "tile" }, h("b", {}, when(stats.last_loaded)), h("span", {}, "last loaded")),
    ),
    h(
      "div",
      { class: "columns" },
      section("Failing", stats.failing.length ? jobTable("Failing jobs", stats.failing) : nothing("All quiet", "No job failed three times in a row.")),
      section("Most read", popular.length ? popularTable(popular) : nothing("Nothing read yet", "No finished run read a dataset that you may see.")),
      section("New this week", stats.fresh.length ? jobTable("New jobs", stats.fresh) : nothing("No new jobs", "Every job has been known for more than a week.")),
      stats.deprecated.length ? section("Deprecated", jobTable("Deprecated jobs", stats.deprecated)) : null,
    ),
  ];
}

function tile(count, text, href, kind = "") {
  const inside = [h("b", {}, count.toLocaleString("en")), h("span", {}, text)];
  return href ? h("a", { class: `tile ${kind}`, href }, ...inside) : h("div", { class: `tile ${kind}` }, ...inside);
}

function jobTable(caption, jobs) {
  return table(caption, [["Job", jobLink], ["Owner", (job) => listed(job.owners)], ["Last run", (job) => [outcome(job.last_outcome), " ", when(job.last_run)]]], jobs);
}

function popularTable(items) {
  return table(
    "Most read datasets",
    [["Dataset", (item) => datasetLink(item.dataset)], ["Readers", (item) => item.readers.toLocaleString("en"), "number"], ["Runs", (item) => item.runs.toLocaleString("en"), "number"]],
    items,
  );
}

export function datasets(main) {
  return list(main, {
    title: "Datasets",
    path: "datasets",
    extra: [["namespace", "Namespace, such as hdfs://nn:8020"]],
    columns: [
      ["Dataset", (item) => datasetLink(item)],
      ["Flags", (item) => flags(item.flags)],
      ["Owner", (item) => listed(item.owners)],
      ["Team", (item) => listed(item.teams)],
      ["Written", (item) => when(item.last_written)],
      ["Seen", (item) => when(item.last_seen)],
    ],
  });
}

export function jobs(main) {
  return list(main, {
    title: "Jobs",
    path: "jobs",
    extra: [["team", "Team"], ["domain", "Domain"]],
    columns: [
      ["Job", jobLink],
      ["Flags", (item) => flags(item.flags)],
      ["Owner", (item) => listed(item.owners)],
      ["Team", (item) => item.team || h("span", { class: "faint" }, "none")],
      ["Runs", (item) => item.frequency],
      ["Last run", (item) => [outcome(item.last_outcome), " ", when(item.last_run)]],
    ],
  });
}

async function list(main, { title, path, extra, columns }) {
  const place = h("div", {});
  const names = ["q", ...extra.map(([name]) => name)];
  const inputs = Object.fromEntries(
    [["q", "Words in the name"], ...extra].map(([name, text]) => [name, h("input", { type: "search", name, value: query(name), placeholder: text, "aria-label": text })]),
  );
  const values = () => Object.fromEntries(names.map((name) => [name, inputs[name].value.trim()]));
  let offset = Number(query("offset", "0")) || 0;
  const load = () => into(place, title.toLowerCase(), () => get(path, { ...values(), limit: SHOWN, offset }), shown);

  function shown(found) {
    if (!found.items.length) {
      const asked = Object.values(values()).some(Boolean);
      return nothing(asked ? "Nothing fits" : `No ${title.toLowerCase()} yet`, asked ? "Use fewer words, or other ones. You see only what DAGs that you may read touch." : "They appear when the first run with lineage has been loaded.");
    }
    const last = found.offset + found.items.length;
    return [
      h("p", { class: "faint" }, `${found.offset + 1} to ${last} of ${plural(found.total, path.slice(0, -1))}`),
      table(title, columns, found.items),
      found.total > SHOWN
        ? h("p", { class: "pages" }, step("Previous", offset - SHOWN, offset > 0), step("Next", offset + SHOWN, last < found.total))
        : null,
    ];
  }

  function step(text, to, possible) {
    return h("button", { type: "button", disabled: !possible, onclick: () => go(to) }, text);
  }

  function go(to) {
    offset = Math.max(0, to);
    remember({ ...values(), offset: offset || "" });
    load();
  }

  let timer = 0;
  for (const input of Object.values(inputs)) {
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => go(0), 200);
    });
  }
  main.append(h("h1", {}, title), h("div", { class: "filters", role: "search" }, ...Object.values(inputs)), place);
  await load();
}


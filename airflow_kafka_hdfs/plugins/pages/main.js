// The frame of every page, and which page an address means.

import { announce, copy, h, page, ROOT, shared } from "./dom.js";
import { searchField } from "./search.js";

const PAGES = {
  "": ["Overview", () => import("./overview.js").then((m) => m.start)],
  datasets: ["Datasets", () => import("./overview.js").then((m) => m.datasets)],
  jobs: ["Jobs", () => import("./overview.js").then((m) => m.jobs)],
  dataset: ["Dataset", () => import("./dataset.js").then((m) => m.show)],
  job: ["Job", () => import("./job.js").then((m) => m.show)],
  dag: ["DAG", () => import("./job.js").then((m) => m.showDag)],
  graph: ["Graph", () => import("./graph.js").then((m) => m.show)],
  impact: ["Impact", () => import("./impact.js").then((m) => m.show)],
  incident: ["Incident", () => import("./incident.js").then((m) => m.show)],
};

const name = location.pathname.slice(ROOT.length).replace(/^\/|\/$/g, "");
const [title, load] = PAGES[name] ?? PAGES[""];
document.title = `${title} – Lineage`;

const main = h("main", { id: "main", tabindex: -1 });
const field = searchField({ label: "Search datasets and jobs", placeholder: "Search datasets and jobs  ( / )" });

function entry(target, text) {
  return h("a", { href: page(target), "aria-current": target === name ? "page" : null }, text);
}

document.body.append(
  h("a", { class: "skip", href: "#main" }, "Skip to content"),
  h(
    "header",
    { class: "top" },
    h("nav", { "aria-label": "Lineage" }, entry("", "Overview"), entry("datasets", "Datasets"), entry("jobs", "Jobs"), entry("graph", "Graph"), entry("impact", "Impact"), entry("incident", "Incident")),
    field,
    h("button", { type: "button", class: "quiet", onclick: () => copy(shared(), "Link copied"), title: "Copy a link to what is shown" }, "Copy link"),
  ),
  main,
  h("div", { id: "said", role: "status", "aria-live": "polite" }),
);

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    field.querySelector("input").focus();
  }
});

window.addEventListener("error", () => announce("Something on this page went wrong."));

const show = await load();
await show(main);
document.documentElement.dataset.ready = "true";

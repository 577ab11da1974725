// The graph page: one hop first, more on request; what is shown stands in the address.

import { each, get, layout } from "./api.js";
import { announce, datasetLink, failure, flags, fullName, h, jobLink, listed, loading, nothing, page, placeOf, plural, query, remember, shortName, when } from "./dom.js";
import { Drawing } from "./drawing.js";
import { Model } from "./model.js";
import { searchField } from "./search.js";

const SHOWN = [["", "all pairs"], ["observed", "pairs that were written"], ["declared", "promised pairs"], ["failing", "failing pairs"]];
const FILTERS = [["owner", "owners"], ["domain", "domains"], ["flag", "flags"]];
const LIMIT = 300;
const MOST = 2000;
const ROWS = 200; // of the table, until somebody wants all

export async function show(main) {
  if (!query("node")) {
    main.append(
      h("h1", {}, "Graph"),
      nothing("Where should it start?", "Choose a dataset; the graph shows its neighbours first and opens from there."),
      searchField({ label: "Dataset to start from", placeholder: "Dataset", kinds: ["dataset"], choose: (hit) => location.assign(page("graph", { node: hit.id })) }),
    );
    return;
  }
  await new GraphPage(main).load();
}

/** A short word for where it lies: scheme and folder. */
function folderOf(dataset) {
  const folder = dataset.name.split("/").filter(Boolean).slice(0, -1).join("/");
  return folder ? `${dataset.platform}:/${folder}` : dataset.platform || dataset.namespace;
}

class GraphPage {
  constructor(main) {
    this.main = main;
    this.root = query("node");
    this.chosen = query("sel");
    this.route = query("route") === "1";
    this.opened = query("open").split(",").filter(Boolean);
    this.filters = Object.fromEntries(FILTERS.map(([name]) => [name, query(name)]));
    this.order = ["distance", 1];
    this.most = ROWS;
    this.drawing = new Drawing({
      label: "Lineage graph. Arrow keys move between datasets, Enter chooses, [ and ] open what is hidden, 0 shows all, plus and minus zoom.",
      pick: (id) => this.choose(id),
      open: (id, direction) => this.open(id, direction),
      clear: () => this.choose(""),
    });
    this.#build();
  }

  #build() {
    const hops = (name, text) => {
      const given = query(name, "1");
      const steps = ["0", "1", "2", "3", "5", "10", "50"];
      const options = steps.includes(given) ? steps : [...steps, given];
      return h("label", {}, text, h("select", { name, onchange: (event) => this.again({ [name]: event.target.value, open: "" }) }, options.map((step) => h("option", { value: step, selected: step === given }, step === "50" ? "all" : step))));
    };
    this.selects = h("span", { class: "group", role: "group", "aria-label": "Filters" });
    this.status = h("span", { class: "faint", role: "status" });
    this.details = h("section", { class: "details", "aria-label": "Chosen dataset" });
    this.words = h("input", { type: "search", placeholder: "Find in this graph", "aria-label": "Find in this graph", oninput: () => this.list() });
    this.rows = h("div", { class: "rows" });
    this.side = h("aside", { "aria-label": "Table of the graph" }, this.details, h("div", { class: "rows-head" }, this.words), this.rows);
    this.stage = h("div", { class: "stage" }, this.drawing.svg, h("div", { class: "zoom" }, this.#button("−", "Zoom out (-)", () => this.drawing.zoomBy(1 / 1.3)), this.#button("+", "Zoom in (+)", () => this.drawing.zoomBy(1.3)), this.#button("Fit", "Show all (0)", () => this.drawing.fit())));
    this.toggle = h("button", { type: "button", "aria-pressed": "true", title: "Table beside the graph (t)", onclick: () => this.#toggleTable() }, "Table");
    this.place = h("div", { class: "work" }, this.stage, this.side);
    this.title = h("h1", {}, "Graph");
    this.main.classList.add("full");
    this.main.append(
      h(
        "div",
        { class: "bar" },
        this.title,
        hops("up", "Hops up "),
        hops("down", "Hops down "),
        h("label", {}, "As of ", h("input", { type: "date", name: "as_of", value: query("as_of"), onchange: (event) => this.again({ as_of: event.target.value }) })),
        h("label", {}, "Show ", h("select", { name: "show", onchange: (event) => this.again({ show: event.target.value, open: "" }) }, SHOWN.map(([value, text]) => h("option", { value, selected: value === query("show") }, text)))),
        this.selects,
        this.toggle,
        this.status,
      ),
      this.place,
    );
    if (query("table") === "0") this.#toggleTable();
    document.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(([{ contentRect }]) => this.drawing.resize(contentRect) && this.model && !this.touched && this.drawing.start(this.root)).observe(this.stage);
    this.drawing.svg.addEventListener("pointerdown", () => (this.touched = true));
    this.drawing.svg.addEventListener("wheel", () => (this.touched = true), { passive: true });
  }

  #button(text, title, onclick) {
    return h("button", { type: "button", title, "aria-label": title, onclick }, text);
  }

  #toggleTable() {
    const hide = !this.place.classList.contains("alone");
    this.place.classList.toggle("alone", hide);
    this.toggle.setAttribute("aria-pressed", String(!hide));
    remember({ table: hide ? "0" : "" });
  }

  #key(event) {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { 0: () => this.drawing.fit(), "+": () => this.drawing.zoomBy(1.3), "=": () => this.drawing.zoomBy(1.3), "-": () => this.drawing.zoomBy(1 / 1.3), t: () => this.#toggleTable(), Escape: () => this.choose("") }[event.key];
    if (act) act();
  }

  again(changes) {
    remember(changes);
    location.reload();
  }

  async load() {
    const cover = h("div", { class: "cover" }, loading("the graph"));
    this.stage.append(cover);
    try {
      const asked = { node: this.root, up: query("up", "1"), down: query("down", "1"), limit: query("limit", LIMIT), as_of: query("as_of"), show: query("show") };
      const answer = await get("graph", asked);
      this.model = new Model();
      this.model.add(answer);
      await this.#reopen();
      const { dataset } = this.model.nodes.get(this.root);
      document.title = `${shortName(dataset)} – Lineage graph`;
      this.title.replaceChildren(...[datasetLink(dataset)].flat());
      if (!this.model.nodes.has(this.chosen)) this.chosen = "";
      await this.redraw();
      this.drawing.start(this.root);
      if (this.chosen) this.drawing.reveal(this.chosen);
      cover.remove();
      if (this.model.nodes.size === 1) this.#alone();
    } catch (error) {
      cover.replaceChildren(failure(error, () => (cover.remove(), this.load())));
      if (error.status === undefined) console.error(error);
    }
  }

  #alone() {
    const { up, down } = this.model.hidden(this.root);
    if (up || down) return;
    this.stage.append(h("div", { class: "note-below" }, nothing("No neighbours", "No job that ran so far read this dataset into another one or wrote it from one. A job shows up when its tasks declare inlets and outlets.")));
  }

  /** Open again what the address says was open, in the order in which it was opened. */
  async #reopen() {
    const answers = await each(this.opened, (word) => this.#ask(...word.split(".")));
    let failed = 0;
    answers.forEach(({ value, error }, number) => {
      const node = this.model.nodes.get(this.opened[number].split(".")[0]);
      if (error || !node) failed++;
      else this.model.add(value, node.distance);
    });
    if (failed) announce(`${plural(failed, "part")} of this link could not be opened`);
  }

  #ask(id, direction) {
    return get("graph", { node: id, up: direction === "up" ? 1 : 0, down: direction === "down" ? 1 : 0, limit: LIMIT, as_of: query("as_of"), show: query("show") });
  }

  async open(id, direction) {
    const node = this.model.nodes.get(id);
    if (node.dataset.restricted) return announce("What is behind a restricted dataset is not shown");
    const word = `${id}.${direction}`;
    if (this.opened.includes(word) && !this.model.hidden(id)[direction]) return undefined;
    this.status.textContent = "Opening …";
    try {
      const before = this.model.nodes.size;
      this.model.add(await this.#ask(id, direction), node.distance);
      if (!this.opened.includes(word)) this.opened.push(word);
      remember({ open: this.opened.join(",") });
      const keep = this.drawing.anchor(id);
      this.touched = true;
      await this.redraw();
      keep();
      announce(`${plural(this.model.nodes.size - before, "dataset")} added`);
    } catch (error) {
      announce(error.message);
      this.#say();
    }
    return undefined;
  }

  async redraw() {
    const ids = [...this.model.nodes.keys()];
    const numbers = new Map(ids.map((id, number) => [id, number]));
    const links = [...this.model.links.values()];
    const places = await layout(ids.length, links.map((link) => [numbers.get(link.source), numbers.get(link.target)]));
    const items = ids.map((id) => this.#item(id));
    const lines = links.map((link) => ({ source: link.source, target: link.target, kind: link.state === "written" ? "" : "unwritten", label: this.#lineLabel(link) }));
    this.drawing.draw(items, lines, places, this.root);
    this.#filtersAgain();
    this.mark();
    this.#say();
  }

  #item(id) {
    const { dataset } = this.model.nodes.get(id);
    const { up, down } = this.model.hidden(id);
    const words = dataset.flags ?? [];
    const kind = [id === this.root ? "root" : "", dataset.restricted ? "hidden-name" : "", ...words].join(" ");
    const owner = dataset.owners?.length ? dataset.owners.join(", ") : "";
    const label = [fullName(dataset), owner && `owner ${owner}`, ...words, up && `${up} more upstream`, down && `${down} more downstream`].filter(Boolean).join(", ");
    const sub = dataset.restricted ? "no right to read" : [owner, folderOf(dataset)].filter(Boolean).join(" · ");
    return { id, title: shortName(dataset), sub, kind, label, up: dataset.restricted ? 0 : up, down: dataset.restricted ? 0 : down };
  }

  #lineLabel(link) {
    const jobs = link.jobs.map((id) => this.model.jobs.get(id)).map((job) => (job && !job.restricted ? job.dag_id : "restricted"));
    return `${jobs.join(", ")}: ${link.state}${link.evidence.length ? ` (${link.evidence.join(", ")})` : ""}`;
  }

  #filtersAgain() {
    this.selects.replaceChildren(
      ...FILTERS.map(([name, key]) => {
        const values = this.model.values(key);
        if (this.filters[name] && !values.includes(this.filters[name])) values.push(this.filters[name]);
        const select = h("select", { "aria-label": `Only ${name}`, disabled: !values.length }, h("option", { value: "" }, `any ${name}`), values.map((value) => h("option", { value, selected: value === this.filters[name] }, value)));
        select.addEventListener("change", () => {
          this.filters[name] = select.value;
          remember({ [name]: select.value });
          this.mark();
        });
        return select;
      }),
    );
  }

  #fits(dataset) {
    return FILTERS.every(([name, key]) => !this.filters[name] || (dataset[key] ?? []).includes(this.filters[name]));
  }

  #say() {
    const { size } = this.model.nodes;
    const limit = Number(query("limit", LIMIT));
    this.status.replaceChildren(`${plural(size, "dataset")}, ${plural(this.model.links.size, "pair")}`);
    if (this.model.truncated && limit < MOST) {
      this.status.append(" – nearest only; ", h("button", { type: "button", class: "link-like", onclick: () => this.again({ limit: limit < 1000 ? 1000 : MOST }) }, `show up to ${limit < 1000 ? "1,000" : "2,000"}`));
    } else if (this.model.truncated) {
      this.status.append(" – nearest only; ", h("a", { href: page("impact", { node: this.root }) }, "the list has all"));
    }
  }

  choose(id) {
    if (!this.model) return;
    this.chosen = id === this.chosen ? "" : id;
    if (!this.chosen) this.route = false;
    remember({ sel: this.chosen, route: this.chosen && this.route ? "1" : "" });
    this.mark();
    if (this.chosen) announce(`${fullName(this.model.nodes.get(id).dataset)} chosen`);
  }

  /** Colours, list and details follow from what is chosen and filtered. */
  mark() {
    const way = this.chosen && this.route ? this.model.route(this.root, this.chosen) : null;
    const lit = this.chosen ? new Set(way ?? this.model.stream(this.chosen)) : null;
    const steps = way ? new Set(way.slice(1).map((id, number) => `${way[number]} ${id}`)) : null;
    const filtered = Object.values(this.filters).some(Boolean);
    this.drawing.mark(
      (id) => {
        const out = filtered && !this.#fits(this.model.nodes.get(id).dataset);
        if (id === this.chosen) return "chosen path";
        return (lit && !lit.has(id)) || out ? "dim" : lit ? "path" : "";
      },
      (source, target) => {
        if (!lit) return filtered ? "faded" : "";
        const on = steps ? steps.has(`${source} ${target}`) : lit.has(source) && lit.has(target);
        return on ? "path" : "dim";
      },
    );
    this.list();
    this.describe();
  }

  describe() {
    if (!this.chosen) {
      this.details.replaceChildren(h("p", { class: "hint" }, "Choose a dataset to see what leads to it and from it. +n opens what is hidden."));
      return;
    }
    const { dataset } = this.model.nodes.get(this.chosen);
    const { up, down } = this.model.hidden(this.chosen);
    if (dataset.restricted) {
      this.details.replaceChildren(h("h2", {}, "Restricted"), h("p", {}, "Only DAGs that you may not read touch this dataset. It is shown so that the way through it stays whole."));
      return;
    }
    const jobs = [...new Map(this.model.sources.get(this.chosen).flatMap((id) => this.model.jobsBetween(id, this.chosen)).map((job) => [job.id, job])).values()];
    const far = this.chosen !== this.root;
    this.details.replaceChildren(
      h("h2", {}, datasetLink(dataset, { full: true })),
      h("p", {}, flags(dataset.flags), " Owner ", listed(dataset.owners, "unknown"), "; written ", when(dataset.last_written)),
      h("p", {}, "Written by ", listed(jobs.map(jobLink), "no job in this graph")),
      h(
        "div",
        { class: "buttons" },
        up ? this.#button(`+${up} up`, "Show more upstream ([)", () => this.open(this.chosen, "up")) : null,
        down ? this.#button(`+${down} down`, "Show more downstream (])", () => this.open(this.chosen, "down")) : null,
        far
          ? h(
              "button",
              {
                type: "button",
                "aria-pressed": String(this.route),
                onclick: () => {
                  this.route = !this.route;
                  remember({ route: this.route ? "1" : "" });
                  if (this.route && !this.model.route(this.root, this.chosen)) announce("No directed path between the two in this graph");
                  this.mark();
                },
              },
              "Shortest path",
            )
          : null,
        far ? h("a", { class: "button", href: page("graph", { node: this.chosen }) }, "Start here") : null,
        h("a", { class: "button", href: page("impact", { node: this.chosen }) }, "Impact"),
      ),
    );
  }

  list() {
    const words = this.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const [key, sign] = this.order;
    const value = { distance: (node) => node.distance, name: (node) => shortName(node.dataset), owner: (node) => (node.dataset.owners ?? []).join(), flags: (node) => (node.dataset.flags ?? []).join() }[key];
    const found = [...this.model.nodes.entries()].filter(([, node]) => this.#fits(node.dataset) && words.every((word) => fullName(node.dataset).toLowerCase().includes(word)));
    found.sort(([, a], [, b]) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) || shortName(a.dataset).localeCompare(shortName(b.dataset)));
    const heading = (name, text, kind = "") =>
      h("th", { scope: "col", class: kind, "aria-sort": key === name ? (sign > 0 ? "ascending" : "descending") : null }, h("button", { type: "button", class: "link-like", onclick: () => ((this.order = [name, key === name ? -sign : 1]), this.list()) }, text));
    if (!found.length) {
      this.rows.replaceChildren(nothing("Nothing fits", "No dataset in this graph has these words, owner, domain and flag."));
      return;
    }
    this.rows.replaceChildren(
      h(
        "table",
        {},
        h("caption", { class: "unseen" }, "Datasets in this graph"),
        h("thead", {}, h("tr", {}, heading("name", "Dataset"), heading("distance", "Hops", "number"), heading("owner", "Owner"), heading("flags", "Flags"))),
        h(
          "tbody",
          {},
          found.slice(0, this.most).map(([id, { dataset, distance }]) =>
            h(
              "tr",
              { class: id === this.chosen ? "chosen" : "" },
              h("td", {}, h("button", { type: "button", class: "link-like", title: fullName(dataset), onclick: () => (this.choose(id), this.chosen && this.drawing.reveal(id, { always: true })) }, shortName(dataset)), dataset.restricted ? null : h("div", { class: "where" }, placeOf(dataset))),
              h("td", { class: "number" }, distance > 0 ? `+${distance}` : String(distance)),
              h("td", {}, (dataset.owners ?? []).join(", ")),
              h("td", {}, flags(dataset.flags)),
            ),
          ),
        ),
      ),
      found.length > this.most ? h("p", { class: "hint rows-head" }, h("button", { type: "button", onclick: () => ((this.most = MOST), this.list()) }, `Show all ${found.length.toLocaleString("en")}`)) : "",
    );
  }
}

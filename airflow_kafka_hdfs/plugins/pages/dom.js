// Elements and texts. Everything that comes from outside is set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element: `h("p", {class: "note", onclick: f}, "text", child)`. */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for drawings. */
export function s(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Address of a page of ours: `page("dataset", {id})`. */
export function page(name, query = {}) {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== "" && value !== undefined && value !== null) words.set(key, value);
  const text = words.toString();
  return `${ROOT}/${name}${text ? `?${text}` : ""}`;
}

/** Path under which the pages are served, without a slash at its end. */
export const ROOT = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");
/** Path of Airflow itself. */
export const AIRFLOW = ROOT.replace(/\/lineage$/, "");

export function query(name, otherwise = "") {
  return new URLSearchParams(location.search).get(name) ?? otherwise;
}

/** Change this page's address without leaving it, in Airflow's address line too. */
export function remember(changes) {
  const url = new URL(location.href);
  for (const [key, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) url.searchParams.delete(key);
    else url.searchParams.set(key, value);
  }
  history.replaceState(history.state, "", url);
  try {
    if (window.parent !== window && window.parent.location.pathname.startsWith(`${AIRFLOW}/plugin/`)) {
      window.parent.history.replaceState(window.parent.history.state, "", `${shared()}`);
    }
  } catch {
    // a frame of another site has no address line of ours
  }
}

/** The address that a colleague can open: this page inside Airflow. */
export function shared() {
  return `${location.origin}${AIRFLOW}/plugin/lineage${location.pathname}${location.search}`;
}

/** A link to a page of Airflow's own, which is around this one if we are in a frame. */
export function outside(path, ...children) {
  const target = `${AIRFLOW}${path}`;
  return h(
    "a",
    {
      href: target,
      class: "out",
      onclick: (event) => {
        if (window.parent === window || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        window.parent.history.pushState({}, "", target);
        window.parent.dispatchEvent(new PopStateEvent("popstate", { state: {} }));
      },
    },
    ...children,
  );
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** A time as people say it, with the exact one on hover. */
export function when(text, otherwise = "never") {
  if (!text) return h("span", { class: "faint" }, otherwise);
  const date = new Date(text);
  return h("time", { datetime: text, title: date.toISOString().replace(".000", "") }, ago(date));
}

function ago(date) {
  const seconds = (Date.now() - date.getTime()) / 1000;
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= size) {
      const count = Math.floor(seconds / size);
      return count > 90 && unit === "day" ? date.toISOString().slice(0, 10) : `${plural(count, unit)} ago`;
    }
  }
  return seconds < -60 ? date.toISOString().slice(0, 16).replace("T", " ") : "just now";
}

const FLAGS = {
  failing: "The last runs of every job that writes it failed",
  deprecated: "No run for a month, or for two of its periods",
  temporary: "An intermediate result, by its name or scheme",
};

export function flags(names) {
  return (names ?? []).map((name) => h("span", { class: `flag ${name in FLAGS ? name : ""}`, title: FLAGS[name] ?? "" }, name));
}

export function outcome(text) {
  return h("span", { class: `state ${["success", "failed", "running"].includes(text) ? text : ""}` }, text || "none yet");
}

export function shortName(dataset) {
  if (dataset.restricted) return "restricted";
  const parts = dataset.name.split("/").filter(Boolean);
  return parts.at(-1) || dataset.name || dataset.namespace;
}

/** Where it lies: namespace and folder, so that equal last names can be told apart. */
export function placeOf(dataset) {
  const folder = dataset.name.split("/").filter(Boolean).slice(0, -1).join("/");
  return folder ? `${dataset.namespace}/${folder}` : dataset.namespace;
}

export function fullName(dataset) {
  if (dataset.restricted) return "restricted";
  return `${dataset.namespace}/${dataset.name.replace(/^\/+/, "")}`;
}

export function datasetLink(dataset, { full = false } = {}) {
  if (dataset.restricted) {
    return h("span", { class: "restricted", title: "Only DAGs that you may not read touch it" }, "restricted");
  }
  const link = h("a", { href: page("dataset", { id: dataset.id }), title: fullName(dataset) }, full ? fullName(dataset) : shortName(dataset));
  return full ? link : [link, " ", h("span", { class: "where" }, placeOf(dataset))];
}

export function jobLink(job) {
  if (job.restricted) return h("span", { class: "restricted", title: "A DAG that you may not read" }, "restricted");
  return h("a", { href: page("job", { id: job.id }) }, job.dag_id);
}

export function listed(items, otherwise = "none") {
  if (!items.length) return h("span", { class: "faint" }, otherwise);
  return items.flatMap((item, number) => (number ? [", ", item] : [item]));
}

/** A table with a caption for those who can't see it; `columns` are [title, cell of an item, class]. */
export function table(caption, columns, items) {
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, columns.map(([title, , kind]) => h("th", { scope: "col", class: kind }, title)))),
      h("tbody", {}, items.map((item) => h("tr", {}, columns.map(([, cell, kind]) => h("td", { class: kind }, cell(item)))))),
    ),
  );
}

export function section(title, ...children) {
  return h("section", {}, h("h2", {}, title), ...children);
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, ...value]) => h("div", {}, h("dt", {}, name), h("dd", {}, ...value))));
}

// -- What is shown when there is nothing, not yet anything, or an error

export function nothing(title, ...text) {
  return h("div", { class: "empty", role: "status" }, h("strong", {}, title), h("p", {}, ...text));
}

export function loading(what) {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), `Loading ${what} …`);
}

export function failure(error, again) {
  const login = error.status === 401;
  const missing = error.status === 404;
  const title = login ? "You are logged out" : missing ? "Nothing here that you may see" : error.status === 503 ? "The warehouse does not answer" : "This did not work";
  return h(
    "div",
    { class: `empty ${missing ? "" : "error"}`, role: "alert" },
    h("strong", {}, title),
    h("p", {}, missing ? "It does not exist, or only DAGs that you may not read touch it." : error.message),
    login ? h("a", { class: "button", href: `${AIRFLOW}/auth/login` }, "Log in") : null,
    !login && !missing && again ? h("button", { type: "button", onclick: again }, "Try again") : null,
  );
}

/** Show a promise's content in a place: loading, then what `show` makes of the answer, or the error. */
export async function into(place, what, ask, show) {
  place.replaceChildren(loading(what));
  place.setAttribute("aria-busy", "true");
  try {
    const shown = await show(await ask());
    place.replaceChildren(...[shown].flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  } catch (error) {
    place.replaceChildren(failure(error, () => into(place, what, ask, show)));
    if (error.status === undefined) console.error(error);
  } finally {
    place.removeAttribute("aria-busy");
  }
}

/** Say something to a screen reader, and to everybody for a moment. */
export function announce(text) {
  const place = document.querySelector("#said");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => place.classList.remove("shown"), 3000);
}

export async function copy(text, said = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
    announce(said);
  } catch {
    window.prompt("Copy this:", text);
  }
}

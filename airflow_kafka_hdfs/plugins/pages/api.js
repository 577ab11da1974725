// Calls to the REST of lineage and to Airflow's own, with the login of this browser.

import { ROOT } from "./dom.js";

async function call(url, options = {}) {
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw Object.assign(new Error("Airflow's API server can't be reached. Is the network up?"), { status: 0 });
  }
  if (answer.ok) return answer.json();
  let text = `${answer.status} ${answer.statusText}`;
  try {
    const { detail } = await answer.json();
    if (typeof detail === "string") text = detail;
    else if (Array.isArray(detail)) text = detail.map((one) => `${(one.loc ?? []).join(".")}: ${one.msg}`).join("; ");
  } catch {
    // no JSON: the status line says it
  }
  throw Object.assign(new Error(text), { status: answer.status });
}

function words(values) {
  const kept = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return new URLSearchParams(kept).toString();
}

/** Read from `/lineage/api/v1`. */
export function get(path, values = {}, options = {}) {
  const text = words(values);
  return call(`${ROOT}/api/v1/${path}${text ? `?${text}` : ""}`, options);
}

export function address(path, values) {
  return `${ROOT}/api/v1/${path}?${words(values)}`;
}

function send(url, method, body) {
  return call(url, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

/** Where to draw a graph: `links` are pairs of numbers. */
export function layout(nodes, links) {
  return send(`${ROOT}/layout`, "POST", { nodes, links });
}

/** Act through `/lineage/api/v1`. */
export function act(path, body) {
  return send(`${ROOT}/api/v1/${path}`, "POST", body);
}

/** At most four calls at a time, answers in the order of the items; an error becomes a value. */
export async function each(items, ask) {
  const found = new Array(items.length);
  let next = 0;
  async function work() {
    while (next < items.length) {
      const number = next++;
      try {
        found[number] = { value: await ask(items[number]) };
      } catch (error) {
        found[number] = { error };
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(4, items.length) }, work));
  return found;
}

// Search with suggestions while typing: a combobox as WAI-ARIA describes it.

import { get } from "./api.js";
import { h, page } from "./dom.js";

const WAIT = 120; // ms without a key before asking
let made = 0;

/** A search field; `choose(hit)` is called with a suggestion, and leads to its page by default. */
export function searchField({ label, placeholder, choose = open, kinds = ["dataset", "job"] }) {
  const id = `search-${++made}`;
  const list = h("ul", { id, role: "listbox", "aria-label": "Suggestions", hidden: true });
  const input = h("input", {
    type: "search",
    role: "combobox",
    placeholder,
    "aria-label": label,
    "aria-controls": id,
    "aria-expanded": "false",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: 200,
  });
  const state = { hits: [], at: -1, timer: 0, asked: null };

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    state.at = -1;
  }

  function show(items) {
    list.replaceChildren(...items);
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }

  function mark(at) {
    state.at = at;
    [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
    if (at < 0) return;
    input.setAttribute("aria-activedescendant", `${id}-${at}`);
    list.children[at].scrollIntoView({ block: "nearest" });
  }

  function said(text) {
    state.hits = [];
    show([h("li", { class: "note", role: "presentation" }, text)]);
  }

  async function ask() {
    const text = input.value.trim();
    state.asked?.abort();
    if (!text) return close();
    const asked = (state.asked = new AbortController());
    try {
      const { items } = await get("search", { q: text, limit: 12 }, { signal: asked.signal });
      if (asked !== state.asked) return undefined;
      state.hits = items.filter((hit) => kinds.includes(hit.kind));
      if (!state.hits.length) return said("Nothing that you may see has all these words in its name.");
      show(state.hits.map((hit, number) => suggestion(hit, text, number)));
      mark(0);
    } catch (error) {
      if (error.name !== "AbortError") said(error.message);
    }
    return undefined;
  }

  function suggestion(hit, text, number) {
    return h(
      "li",
      { id: `${id}-${number}`, role: "option", onmousedown: (event) => (event.preventDefault(), pick(hit)), onmousemove: () => mark(number) },
      h("span", { class: `kind ${hit.kind === "job" ? "job" : ""}` }, hit.kind === "job" ? "job" : "dataset"),
      h("span", { class: "hit" }, marked(hit.name, text)),
      h("span", { class: "where" }, hit.namespace),
    );
  }

  function pick(hit) {
    close();
    input.value = "";
    choose(hit);
  }

  input.addEventListener("input", () => {
    clearTimeout(state.timer);
    state.timer = setTimeout(ask, WAIT);
  });
  input.addEventListener("focus", () => input.value.trim() && ask());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const count = state.hits.length;
    if (event.key === "Escape") {
      if (!list.hidden) event.stopPropagation();
      close();
    } else if (event.key === "Enter" && !list.hidden && state.at >= 0 && count) {
      event.preventDefault();
      pick(state.hits[state.at]);
    } else if (event.key === "Enter" && input.value.trim() && choose === open) {
      location.assign(page("datasets", { q: input.value.trim() }));
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && count && !list.hidden) {
      event.preventDefault();
      mark((state.at + (event.key === "ArrowDown" ? 1 : count - 1)) % count);
    }
  });
  return h("div", { class: "search" }, input, list);
}

function open(hit) {
  location.assign(page(hit.kind === "job" ? "job" : "dataset", { id: hit.id }));
}

/** The name with the words that were typed in bold. */
function marked(name, text) {
  const words = text.split(/\s+/).filter(Boolean).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const parts = name.split(new RegExp(`(${words.join("|")})`, "i"));
  return parts.map((part, number) => (number % 2 ? h("b", {}, part) : part));
}

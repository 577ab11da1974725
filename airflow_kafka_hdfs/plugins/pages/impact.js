// What a change of a dataset reaches, or what a dataset may come from: a list by distance, with whom to talk to.

import { address, get } from "./api.js";
import { copy, datasetLink, flags, fullName, h, into, jobLink, listed, nothing, page, plural, query, remember, section, shortName, table } from "./dom.js";
import { searchField } from "./search.js";

const SHOWN = 100;

export async function show(main) {
  const node = query("node");
  if (!node) {
    main.append(
      h("h1", {}, "Impact"),
      nothing("Whom would a change reach?", "Choose the dataset that you want to change."),
      searchField({ label: "Dataset to change", placeholder: "Dataset", kinds: ["dataset"], choose: (hit) => location.assign(page("impact", { node: hit.id })) }),
    );
    return;
  }
  const place = h("div", {});
  let offset = Number(query("offset", "0")) || 0;
  const direction = h("select", { "aria-label": "Direction" }, [["down", "What a change reaches"], ["up", "What it may come from"]].map(([value, text]) => h("option", { value, selected: query("direction", "down") === value }, text)));
  const date = h("input", { type: "date", "aria-label": "As of", value: query("as_of") });
  const title = h("h1", {}, "Impact");
  const asked = () => ({ node, direction: direction.value, as_of: date.value });
  const load = () => into(place, "the list", () => get("impact", { ...asked(), limit: SHOWN, offset }), shown);
  const go = (to) => {
    offset = to;
    remember({ ...asked(), offset: offset || "" });
    return load();
  };

  function shown(found) {
    const { root } = found;
    title.replaceChildren("Impact of ", h("a", { href: page("dataset", { id: root.id }), title: fullName(root) }, shortName(root)));
    document.title = `Impact of ${shortName(root)} – Lineage`;
    if (!found.total) {
      return found.direction === "down"
        ? nothing("A change reaches nothing", "No job that ran reads it into another dataset. People and tools outside Airflow may still read it.")
        : nothing("No source is known", "No job that ran wrote it from another dataset.");
    }
    const last = found.offset + found.items.length;
    return [
      h(
        "p",
        { class: "lead" },
        h("b", {}, plural(found.total, "dataset")),
        found.direction === "down" ? " downstream" : " upstream",
        `, up to ${plural(found.by_distance.length, "hop")} away`,
        found.restricted ? `; ${found.restricted.toLocaleString("en")} of them behind DAGs that you may not read` : "",
        ". ",
      ),
      bars(found.by_distance),
      contacts(found),
      section(
        "Datasets, nearest first",
        table(
          "Datasets by distance",
          [
            ["Hops", (one) => one.distance, "number"],
            ["Dataset", (one) => [datasetLink(one.dataset), " ", flags(one.dataset.flags)]],
            ["Written by", (one) => listed(one.jobs.map(jobLink))],
            ["Owner", (one) => listed(one.dataset.owners ?? [], "")],
            ["Team", (one) => listed(one.dataset.teams ?? [], "")],
          ],
          found.items,
        ),
        found.total > SHOWN
          ? h("p", { class: "pages" }, `${found.offset + 1} to ${last} of ${found.total.toLocaleString("en")} `, h("button", { type: "button", disabled: !offset, onclick: () => go(Math.max(0, offset - SHOWN)) }, "Previous"), h("button", { type: "button", disabled: last >= found.total, onclick: () => go(offset + SHOWN) }, "Next"))
          : null,
      ),
    ];
  }

  function bars(counts) {
    const most = Math.max(...counts);
    const steps = counts.slice(0, 12);
    return h(
      "ul",
      { class: "bars", "aria-label": "Datasets by distance" },
      steps.map((count, number) => h("li", {}, h("span", { class: "faint" }, plural(number + 1, "hop")), h("meter", { min: 0, max: most, value: count, "aria-label": plural(number + 1, "hop") }), h("span", { class: "number" }, count.toLocaleString("en")))),
      counts.length > steps.length ? h("li", { class: "faint" }, `and ${plural(counts.length - steps.length, "hop")} more`) : null,
    );
  }

  function contacts(found) {
    const people = new Map();
    for (const item of found.items) {
      for (const job of item.jobs.filter((one) => !one.restricted)) {
        const key = `${job.owners.join(", ")} ${job.team}`;
        const known = people.get(key) ?? people.set(key, { owners: job.owners, team: job.team, jobs: new Map() }).get(key);
        known.jobs.set(job.id, job);
      }
    }
    const list = [...people.values()].sort((a, b) => b.jobs.size - a.jobs.size);
    if (!list.length) return null;
    const text = list.map((one) => [...one.owners, one.team].filter(Boolean).join(" / ")).join("\n");
    return section(
      found.total > SHOWN ? "Whom to talk to (of this page)" : "Whom to talk to",
      table("Owners", [["Owner", (one) => listed(one.owners, "unknown")], ["Team", (one) => one.team || ""], ["Jobs", (one) => listed([...one.jobs.values()].slice(0, 8).map(jobLink)).concat(one.jobs.size > 8 ? ` and ${one.jobs.size - 8} more` : "")]], list),
      h("p", {}, h("button", { type: "button", onclick: () => copy(text, "Names copied") }, "Copy the names")),
    );
  }

  direction.addEventListener("change", () => go(0));
  date.addEventListener("change", () => go(0));
  const csv = h("a", { class: "button", download: "impact.csv", href: "#", onclick: (event) => (event.currentTarget.href = address("impact", { ...asked(), format: "csv" })) }, "Download CSV");
  main.append(h("div", { class: "head" }, title, h("div", { class: "buttons" }, direction, date, csv, h("a", { class: "button", href: page("graph", { node }) }, "Graph"))), place);
  await load();
}

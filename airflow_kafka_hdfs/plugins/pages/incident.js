// A dataset was wrong for a while: who may have made it so, what to freeze, what to run again and in which order.

import { act, get } from "./api.js";
import { announce, datasetLink, failure, h, into, jobLink, listed, loading, nothing, outside, page, plural, query, remember, section, table } from "./dom.js";
import { searchField } from "./search.js";

export async function show(main) {
  const dataset = query("dataset");
  main.append(h("h1", {}, "Incident"));
  if (!dataset) {
    main.append(
      nothing("Which dataset is wrong?", "Choose it, say since when, and see suspects upstream and what has to be repaired downstream. Nothing happens before you confirm it."),
      searchField({ label: "Dataset that is wrong", placeholder: "Dataset", kinds: ["dataset"], choose: (hit) => location.assign(page("incident", { dataset: hit.id })) }),
    );
    return;
  }
  await new Incident(main, dataset).load();
}

class Incident {
  constructor(main, dataset) {
    this.dataset = dataset;
    const minute = (date) => date.toISOString().slice(0, 16);
    const now = new Date();
    this.from = h("input", { type: "datetime-local", value: query("from") || minute(new Date(now - 86400000)), required: true });
    this.to = h("input", { type: "datetime-local", value: query("to") || minute(now) });
    this.place = h("div", {});
    main.append(
      h(
        "form",
        {
          class: "filters",
          onsubmit: (event) => {
            event.preventDefault();
            this.load();
          },
        },
        h("label", {}, "Wrong from (UTC) ", this.from),
        h("label", {}, "to (UTC) ", this.to),
        h("button", { type: "submit", class: "first" }, "Make the plan"),
      ),
      this.place,
    );
  }

  get asked() {
    const time = (input) => (input.value ? `${input.value}Z` : ""); // the fields are in UTC
    return { dataset: this.dataset, from: time(this.from), to: time(this.to) };
  }

  load() {
    remember({ from: this.from.value, to: this.to.value });
    return into(this.place, "the plan", () => get("repair", this.asked), (answer) => this.#plan(answer));
  }

  #plan({ plan, frozen }) {
    this.plan = plan;
    document.title = "Incident – Lineage";
    const paused = new Set(frozen);
    return [
      h("p", { class: "lead" }, datasetLink(plan.dataset, { full: true }), ` feeds ${plural(plan.datasets, "dataset")}`, plan.restricted ? `, ${plan.restricted} of them behind DAGs that you may not read` : "", "."),
      plan.truncated ? h("p", { class: "note warn" }, "The plan is larger than what is shown: repair in parts, or with a shorter time.") : null,
      plan.restricted_jobs ? h("p", { class: "note warn" }, `${plural(plan.restricted_jobs, "job")} downstream may not be read by you: somebody else has to repair ${plan.restricted_jobs === 1 ? "it" : "them"}.`) : null,
      section("1. Suspects upstream", this.#suspects(plan.suspects)),
      section("2. Freeze downstream", this.#freeze(plan.freeze, paused)),
      section("3. Run again, in this order", this.#steps(plan.steps)),
      section("4. Resume", this.#resume(frozen)),
    ];
  }

  #suspects(suspects) {
    if (!suspects.length) return nothing("No suspects", "No job that you may read writes it or what it comes from.");
    return table(
      "Suspects",
      [
        ["Job", (one) => jobLink(one.job)],
        ["Hops", (one) => one.distance, "number"],
        ["Owner", (one) => listed(one.job.owners)],
        ["Failed runs", (one) => (one.failed.length ? h("span", { class: "state failed", title: one.failed.join(", ") }, plural(one.failed.length, "run")) : "")],
        ["Changed", (one) => changes(one.changes)],
        ["", (one) => h("a", { href: page("job", { id: one.job.id, at: this.from.value.slice(0, 10) }) }, "compare")],
      ],
      suspects,
    );
  }

  #freeze(jobs, paused) {
    if (!jobs.length) return nothing("Nothing to freeze", "No job that you may read has this dataset upstream.");
    const picked = new Set(jobs.filter((job) => job.link).map((job) => job.dag_id));
    const box = (job) => h("input", { type: "checkbox", checked: picked.has(job.dag_id), disabled: !job.link, "aria-label": `Freeze ${job.dag_id}`, onchange: (event) => (event.target.checked ? picked.add(job.dag_id) : picked.delete(job.dag_id)) });
    const list = table(
      "Jobs to freeze",
      [["", box], ["Job", jobLink], ["Owner", (job) => listed(job.owners)], ["State", (job) => (paused.has(job.dag_id) ? h("span", { class: "flag" }, "frozen by this repair") : job.link ? "" : h("span", { class: "faint" }, "in another Airflow"))], ["", (job) => (job.link ? outside(job.link, "open") : "")]],
      jobs,
    );
    const button = h("button", { type: "button", onclick: () => this.#confirm("freeze", { ...this.asked, dag_ids: [...picked] }, "Pause", (would) => would.pause) }, "Freeze …");
    return [list, h("p", {}, button, " ", h("span", { class: "faint" }, "Shows first what it would do. Only DAGs that run now are paused and remembered."))];
  }

  #steps(steps) {
    if (!steps.length) return nothing("Nothing to run again", "No job downstream had a run in this time.");
    const span = (step) => (step.how === "backfill" ? `${step.first.slice(0, 16).replace("T", " ")} to ${step.last.slice(0, 16).replace("T", " ")}` : h("span", { title: step.run_ids.join(", ") }, plural(step.run_ids.length, "run")));
    return table(
      "What to run again",
      [
        ["Order", (step) => step.order + 1, "number"],
        ["Job", (step) => jobLink(step.job)],
        ["How", (step) => (step.how === "backfill" ? "backfill" : "clear")],
        ["What", span],
        ["Owner", (step) => listed(step.job.owners)],
        ["", (step) => (step.circle ? h("span", { class: "flag failing", title: "It feeds itself through others: no order is right" }, "circle") : "")],
        ["", (step) => h("button", { type: "button", disabled: !step.job.link, onclick: () => this.#confirm("rerun", { ...this.asked, dag_ids: [step.job.dag_id] }, "Run again", (would) => [...would.run.map((one) => `${one.job.dag_id}: ${one.how}, ${plural(one.run_ids.length, "run")}`), ...would.resume.map((dag) => `${dag}: resume, since this repair has paused it`)]) }, "Run again …")],
      ],
      steps,
    );
  }

  #resume(frozen) {
    if (!frozen.length) return nothing("Nothing is frozen", "This repair has paused no DAG, or all are resumed.");
    const button = h("button", { type: "button", onclick: () => this.#confirm("resume", { repair_id: this.plan.id, dag_ids: frozen }, "Resume", (would) => would.resume) }, "Resume …");
    return [h("p", {}, `${plural(frozen.length, "DAG")} frozen: `, listed(frozen), "."), h("p", {}, button)];
  }

  /** Ask what an action would do, show it, do it only when that is confirmed, and tell what became of each part. */
  async #confirm(path, body, verb, list) {
    const dialog = h("dialog", { "aria-label": verb });
    const close = () => dialog.close();
    dialog.addEventListener("close", () => dialog.remove());
    dialog.append(loading("what it would do"));
    document.body.append(dialog);
    dialog.showModal();
    try {
      const { would, refused } = await act(`repair/${path}`, { ...body, confirm: false });
      const parts = list(would);
      const go = h("button", { type: "button", class: "danger", disabled: !parts.length }, `${verb}: ${parts.length}`);
      const cancel = h("button", { type: "button", onclick: close }, "Cancel");
      go.addEventListener("click", async () => {
        go.disabled = cancel.disabled = true;
        go.textContent = "Working …";
        try {
          this.#done(dialog, await act(`repair/${path}`, { ...body, confirm: true }));
        } catch (error) {
          dialog.replaceChildren(failure(error), h("p", {}, h("button", { type: "button", onclick: close }, "Close")));
        }
      });
      dialog.replaceChildren(
        h("h2", {}, `${verb}?`),
        parts.length ? h("ul", {}, parts.map((part) => h("li", {}, part))) : h("p", {}, "There is nothing to do."),
        refused.length ? h("p", { class: "note warn" }, "You may not change: ", listed(refused), ". Airflow will refuse these.") : null,
        h("p", { class: "faint" }, "It is done through Airflow with your rights, and written to its audit log."),
        h("p", { class: "buttons" }, cancel, go),
      );
      cancel.focus();
    } catch (error) {
      dialog.replaceChildren(failure(error), h("p", {}, h("button", { type: "button", onclick: close }, "Close")));
    }
  }

  #done(dialog, { done, failed }) {
    announce(failed ? `${plural(failed, "part")} failed` : "Done");
    const reload = () => {
      dialog.close();
      this.load();
    };
    dialog.replaceChildren(
      h("h2", {}, failed ? "Some parts failed" : "Done"),
      table("What was done", [["DAG", (one) => one.dag_id], ["What", (one) => one.what], ["Problem", (one) => one.problem]], done),
      h("p", { class: "buttons" }, h("button", { type: "button", class: "first", onclick: reload }, "Close")),
    );
  }
}

function changes(list) {
  if (!list.length) return h("span", { class: "faint" }, "nothing recently");
  return h("ul", { class: "plain" }, list.slice(0, 5).map((one) => h("li", {}, `${one.what} ${one.name}: `, h("s", {}, one.before || "none"), ` → ${one.after || "none"}`)), list.length > 5 ? h("li", { class: "faint" }, `and ${list.length - 5} more`) : null);
}

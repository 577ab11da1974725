// A lineage graph on the page: what was fetched so far, put together; walks over it. No drawing, no fetching.

export class Model {
  constructor() {
    this.nodes = new Map();
    this.links = new Map();
    this.jobs = new Map();
    this.truncated = false;
  }

  /** Add an answer of `GET graph` whose root is `base` hops from ours. */
  add(answer, base = 0) {
    const around = new Map(answer.nodes.map((node) => [node.dataset.id, { up: 0, down: 0 }]));
    for (const link of answer.links) {
      around.get(link.source).down++;
      around.get(link.target).up++;
    }
    for (const node of answer.nodes) {
      const { id } = node.dataset;
      const near = around.get(id);
      const known = this.nodes.get(id);
      const kept = known ?? { dataset: node.dataset, distance: base + node.distance, up: 0, down: 0 };
      // How many neighbours there are in all: the answer says how many of them it does not show.
      kept.up = Math.max(kept.up, near.up + node.hidden_up);
      kept.down = Math.max(kept.down, near.down + node.hidden_down);
      this.nodes.set(id, kept);
    }
    for (const link of answer.links) this.links.set(`${link.source} ${link.target}`, link);
    for (const job of answer.jobs) this.jobs.set(job.id, job);
    this.truncated ||= answer.truncated;
    this.#connect();
  }

  #connect() {
    this.targets = new Map([...this.nodes.keys()].map((id) => [id, []]));
    this.sources = new Map([...this.nodes.keys()].map((id) => [id, []]));
    for (const { source, target } of this.links.values()) {
      this.targets.get(source).push(target);
      this.sources.get(target).push(source);
    }
  }

  /** Neighbours of a node that are not here. */
  hidden(id) {
    const node = this.nodes.get(id);
    return { up: Math.max(0, node.up - this.sources.get(id).length), down: Math.max(0, node.down - this.targets.get(id).length) };
  }

  /** Everything up and down the stream of a node, the node too. */
  stream(id) {
    const found = new Set([id]);
    for (const next of [this.sources, this.targets]) {
      const seen = new Set([id]);
      const waiting = [id];
      while (waiting.length) {
        for (const other of next.get(waiting.pop()) ?? []) {
          if (!seen.has(other)) {
            seen.add(other);
            waiting.push(other);
          }
        }
      }
      seen.forEach((other) => found.add(other));
    }
    return found;
  }

  /** A shortest way between two nodes, in whichever direction there is one. */
  route(from, to) {
    return this.#way(from, to) ?? this.#way(to, from);
  }

  #way(from, to) {
    const before = new Map([[from, null]]);
    const waiting = [from];
    for (const id of waiting) {
      if (id === to) break;
      for (const other of this.targets.get(id) ?? []) {
        if (!before.has(other)) {
          before.set(other, id);
          waiting.push(other);
        }
      }
    }
    if (!before.has(to)) return null;
    const found = [];
    for (let id = to; id !== null; id = before.get(id)) found.unshift(id);
    return found;
  }

  /** All values that nodes have: `owners`, `domains`, `flags`. */
  values(name) {
    return [...new Set([...this.nodes.values()].flatMap((node) => node.dataset[name] ?? []))].sort();
  }

  jobsBetween(source, target) {
    const link = this.links.get(`${source} ${target}`);
    return (link?.jobs ?? []).map((id) => this.jobs.get(id)).filter(Boolean);
  }
}

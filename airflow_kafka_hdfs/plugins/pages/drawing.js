// The drawing of a graph: boxes and lines in SVG, moved and zoomed by one transform. Knows no lineage.
// Texts take most of a browser's time, so a box gets its own when it comes into view, and its tooltip when pointed at.

import { s } from "./dom.js";

export const BOX = { width: 208, height: 42, column: 300, row: 58 };
const ZOOM = { least: 0.04, most: 2.5, names: 0.42, start: 0.6 };

/** A place to draw in; `pick(id)` is called when a box is chosen, `open(id, direction)` when more behind it is wanted. */
export class Drawing {
  constructor({ label, pick, open, clear }) {
    this.pick = pick;
    this.open = open;
    this.boxes = new Map();
    this.bare = new Set(); // boxes without their texts
    this.labels = new WeakMap();
    this.lines = [];
    this.room = null;
    this.view = { x: 0, y: 0, zoom: 1 };
    this.links = s("g", { class: "links" });
    this.nodes = s("g", { class: "nodes" });
    this.all = s("g", {}, this.links, this.nodes);
    this.svg = s(
      "svg",
      { class: "graph", role: "group", "aria-label": label },
      s("defs", {}, ["arrow", "arrow-path"].map((id) => s("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0.8 8 4 0 7.2z" })))),
      this.all,
    );
    this.#listen(clear);
  }

  /** Draw anew. `items` are {id, title, sub, kind, label, up, down}, `links` {source, target, kind}, both as `places` has them; the Tab key leads to `first`. */
  draw(items, links, places, first) {
    this.boxes.clear();
    this.bare.clear();
    const focused = document.activeElement?.dataset?.id;
    const elements = items.map((item, number) => {
      const x = places.columns[number] * BOX.column;
      const y = places.rows[number] * BOX.row;
      const element = this.#box(item, x, y);
      const box = { item, x, y, element, marks: "" };
      this.boxes.set(item.id, box);
      this.bare.add(box);
      this.labels.set(element, item.label);
      return element;
    });
    this.lines = links.map((link, number) => {
      const element = s("path", { d: this.#line(link, places.bends[number]), class: `link ${link.kind}`, "marker-end": "url(#arrow)" });
      this.labels.set(element, link.label);
      return { ...link, element, marks: "" };
    });
    this.links.replaceChildren(...this.lines.map((line) => line.element));
    this.nodes.replaceChildren(...elements);
    this.#reachable(this.boxes.has(focused) ? focused : first);
    if (this.boxes.has(focused)) this.boxes.get(focused).element.focus({ preventScroll: true });
  }

  #box(item, x, y) {
    return s(
      "g",
      { class: `node ${item.kind}`, transform: `translate(${x} ${y})`, role: "button", tabindex: -1, "aria-label": item.label, "aria-pressed": "false", "data-id": item.id },
      s("rect", { width: BOX.width, height: BOX.height, rx: 6 }),
      s("rect", { class: "edge", width: 4, height: BOX.height, rx: 2 }),
    );
  }

  /** Write into the boxes that have come into view, unless names are too small to be read. */
  #write() {
    const { x, y, zoom } = this.view;
    if (zoom < ZOOM.names) return;
    const { width, height } = this.size();
    const [left, top, right, bottom] = [-x / zoom - BOX.column, -y / zoom - BOX.row, (width - x) / zoom + BOX.column - BOX.width, (height - y) / zoom + BOX.row];
    for (const box of this.bare) {
      if (box.x < left || box.x > right || box.y < top || box.y > bottom) continue;
      this.bare.delete(box);
      box.element.append(...this.#inside(box.item));
    }
  }

  #inside(item) {
    const room = BOX.width - 20;
    return [
      s("text", { x: 14, y: 18, class: "name" }, cut(item.title, room, 7.1)),
      s("text", { x: 14, y: 33, class: "sub" }, cut(item.sub, room, 5.9)),
      item.up ? this.#more(item, "up", -8) : null,
      item.down ? this.#more(item, "down", BOX.width + 8) : null,
    ].filter(Boolean);
  }

  #more(item, direction, x) {
    const count = item[direction];
    const text = `+${count > 999 ? "999" : count}`;
    const width = 14 + text.length * 6.5;
    const left = direction === "up" ? x - width : x;
    const open = (event) => {
      event.stopPropagation();
      this.open(item.id, direction);
    };
    return s(
      "g",
      { class: "more", "data-more": direction, onclick: open, transform: `translate(${left} ${BOX.height / 2 - 10})` },
      s("title", {}, `Show ${count} more ${direction === "up" ? "upstream" : "downstream"}`),
      s("rect", { width, height: 20, rx: 10 }),
      s("text", { x: width / 2, y: 14, "text-anchor": "middle" }, text),
    );
  }

  #line(link, bends) {
    const from = this.boxes.get(link.source);
    const to = this.boxes.get(link.target);
    const middle = BOX.height / 2;
    const ahead = to.x > from.x;
    const points = [
      [from.x + (ahead ? BOX.width : 0), from.y + middle],
      ...bends.flatMap(([column, row]) => {
        const y = row * BOX.row + middle;
        const ends = [[column * BOX.column, y], [column * BOX.column + BOX.width, y]];
        return ahead ? ends : ends.reverse();
      }),
      [to.x + (ahead ? 0 : BOX.width), to.y + middle],
    ];
    let [x, y] = points[0];
    let path = `M${x} ${y.toFixed(1)}`;
    for (const [nextX, nextY] of points.slice(1)) {
      const half = (nextX - x) / 2;
      path += `C${x + half} ${y.toFixed(1)} ${nextX - half} ${nextY.toFixed(1)} ${nextX} ${nextY.toFixed(1)}`;
      [x, y] = [nextX, nextY];
    }
    return path;
  }

  /** Classes by id: `marks(id)` and `lineMarks(source, target)` say which of `path`, `dim`, `chosen` a part has. */
  mark(marks, lineMarks) {
    for (const [id, box] of this.boxes) {
      const found = marks(id);
      if (found === box.marks) continue;
      box.marks = found;
      box.element.setAttribute("class", `node ${box.item.kind} ${found}`);
      box.element.setAttribute("aria-pressed", String(found.includes("chosen")));
    }
    for (const line of this.lines) {
      const found = lineMarks(line.source, line.target);
      if (found === line.marks) continue;
      line.marks = found;
      line.element.setAttribute("class", `link ${line.kind} ${found}`);
      line.element.setAttribute("marker-end", found.includes("path") ? "url(#arrow-path)" : "url(#arrow)");
    }
  }

  // -- Where one looks

  #apply() {
    const { x, y, zoom } = this.view;
    this.all.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${zoom.toFixed(4)})`);
    this.svg.classList.toggle("far", zoom < ZOOM.names);
    this.#write();
  }

  /** Take up the size of the place to draw in; false if it is the one that is known. */
  resize({ width, height }) {
    const same = this.room?.width === width && this.room.height === height;
    this.room = { width, height };
    if (!same) this.#write();
    return !same;
  }

  /** As last told: to ask for it makes a browser lay out everything first. */
  size() {
    this.room ??= this.svg.getBoundingClientRect();
    return { width: this.room.width || 800, height: this.room.height || 500 };
  }

  /** Show all of it; never larger than natural size. */
  fit() {
    const view = this.#whole();
    if (!view) return;
    this.view = view;
    this.#apply();
  }

  #whole() {
    const boxes = [...this.boxes.values()];
    if (!boxes.length) return null;
    const left = Math.min(...boxes.map((box) => box.x)) - 70;
    const right = Math.max(...boxes.map((box) => box.x)) + BOX.width + 70;
    const top = Math.min(...boxes.map((box) => box.y)) - 30;
    const bottom = Math.max(...boxes.map((box) => box.y)) + BOX.height + 30;
    const { width, height } = this.size();
    const zoom = Math.max(ZOOM.least, Math.min(1, width / (right - left), height / (bottom - top)));
    return { zoom, x: (width - (left + right) * zoom) / 2, y: (height - (top + bottom) * zoom) / 2 };
  }

  /** The first look: all of it if names can be read, else the given box with what is around it. */
  start(id) {
    const box = this.boxes.get(id);
    const whole = this.#whole();
    if (!box || whole.zoom >= ZOOM.start) return this.fit();
    const { width, height } = this.size();
    const before = this.lines.some((line) => line.target === id);
    const after = this.lines.some((line) => line.source === id);
    const share = before === after ? 0.5 : before ? 0.8 : 0.15;
    const zoom = width < 700 ? 0.6 : 0.8;
    this.view = { zoom, x: width * share - (box.x + BOX.width / 2) * zoom, y: height / 2 - (box.y + BOX.height / 2) * zoom };
    return this.#apply();
  }

  zoomBy(factor, at) {
    const { width, height } = this.size();
    const [x, y] = at ?? [width / 2, height / 2];
    const zoom = Math.max(ZOOM.least, Math.min(ZOOM.most, this.view.zoom * factor));
    const ratio = zoom / this.view.zoom;
    this.view = { zoom, x: x - (x - this.view.x) * ratio, y: y - (y - this.view.y) * ratio };
    this.#apply();
  }

  /** Bring a box into the middle, at a size at which its name can be read. */
  reveal(id, { always = false } = {}) {
    const box = this.boxes.get(id);
    if (!box) return;
    const { width, height } = this.size();
    const zoom = always ? Math.max(this.view.zoom, 0.75) : this.view.zoom;
    const x = this.view.x + box.x * zoom;
    const y = this.view.y + box.y * zoom;
    const inside = x > 20 && y > 20 && x + BOX.width * zoom < width - 20 && y + BOX.height * zoom < height - 20;
    if (inside && !always) return;
    this.view = { zoom, x: width / 2 - (box.x + BOX.width / 2) * zoom, y: height / 2 - (box.y + BOX.height / 2) * zoom };
    this.#apply();
  }

  /** Keep a box where it is on the screen while the drawing around it changes. */
  anchor(id) {
    const before = this.boxes.get(id);
    const place = before && { x: this.view.x + before.x * this.view.zoom, y: this.view.y + before.y * this.view.zoom };
    return () => {
      const after = this.boxes.get(id);
      if (!place || !after) return this.fit();
      this.view.x = place.x - after.x * this.view.zoom;
      this.view.y = place.y - after.y * this.view.zoom;
      return this.#apply();
    };
  }

  // -- Pointer and keys

  #listen(clear) {
    let drag = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.target.closest(".more")) return;
      drag = { x: event.clientX, y: event.clientY, view: { ...this.view }, moved: false, id: event.target.closest(".node")?.dataset.id };
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      if (!drag.moved) this.svg.setPointerCapture(event.pointerId);
      drag.moved = true;
      this.view = { ...this.view, x: drag.view.x + dx, y: drag.view.y + dy };
      this.#apply();
    });
    const end = () => {
      const was = drag;
      drag = null;
      if (!was || was.moved) return;
      if (was.id) this.#choose(was.id);
      else clear();
    };
    this.svg.addEventListener("pointerup", end);
    this.svg.addEventListener("pointercancel", () => (drag = null));
    this.svg.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const { left, top } = this.svg.getBoundingClientRect();
        this.zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), [event.clientX - left, event.clientY - top]);
      },
      { passive: false },
    );
    this.svg.addEventListener("keydown", (event) => this.#key(event));
    this.svg.addEventListener("pointerover", (event) => {
      const part = event.target.closest(".node, .link");
      if (part && part.firstElementChild?.tagName !== "title") part.prepend(s("title", {}, this.labels.get(part)));
    });
  }

  #choose(id) {
    this.#reachable(id);
    this.boxes.get(id).element.focus({ preventScroll: true });
    this.pick(id);
  }

  /** One box at a time is in the order of the Tab key; arrows lead to the others. */
  #reachable(id) {
    this.nodes.querySelector('[tabindex="0"]')?.setAttribute("tabindex", -1);
    this.boxes.get(id)?.element.setAttribute("tabindex", 0);
  }

  #key(event) {
    const id = event.target.closest(".node")?.dataset.id;
    if (!id || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowLeft: () => this.#beside(id, -1), ArrowRight: () => this.#beside(id, 1), ArrowUp: () => this.#along(id, -1), ArrowDown: () => this.#along(id, 1) }[event.key];
    if (to) {
      event.preventDefault();
      const next = to();
      if (next) {
        this.#reachable(next);
        this.boxes.get(next).element.focus({ preventScroll: true });
        this.reveal(next);
      }
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.pick(id);
    } else if (event.key === "[" || event.key === "]") {
      this.open(id, event.key === "[" ? "up" : "down");
    }
  }

  /** The nearest neighbour one step up or down the stream. */
  #beside(id, sign) {
    const from = this.boxes.get(id);
    const ids = this.lines.filter((line) => (sign > 0 ? line.source : line.target) === id).map((line) => (sign > 0 ? line.target : line.source));
    return ids.sort((a, b) => Math.abs(this.boxes.get(a).y - from.y) - Math.abs(this.boxes.get(b).y - from.y))[0];
  }

  /** The next box in the same column. */
  #along(id, sign) {
    const from = this.boxes.get(id);
    let best = null;
    for (const [other, box] of this.boxes) {
      const gap = (box.y - from.y) * sign;
      if (box.x === from.x && gap > 0 && (!best || gap < best.gap)) best = { gap, id: other };
    }
    return best?.id;
  }
}

/** A text that fits, with its end kept: the end of a path tells most. */
function cut(text, room, each) {
  const most = Math.floor(room / each);
  const letters = [...text];
  return letters.length <= most ? text : `…${letters.slice(letters.length - most + 1).join("")}`;
}

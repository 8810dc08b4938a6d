"use strict";
/* Charts of a report: lines, points and bars in SVG. The pointer shows values, dragging zooms, and so do the keys. */
(() => {
  const MARGIN = { top: 12, right: 16, bottom: 44 }, LABEL = 30, LETTER = 7.2, LEAST = 4;
  const HEIGHT = 290, NEAR = 40, DRAG = 6, ROWS = 12, DASHES = ["", "7 4", "2 4"];

  function make(name, attributes = {}, text = "") {
    const svg = ["svg", "g", "path", "circle", "rect", "line", "text", "clipPath", "defs"].includes(name);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== "") element.textContent = text;
    return element;
  }

  function written(value, large = 1e7) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= large || size < 1e-3) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
    if (size >= 1e4) return String(Math.round(value));
    return String(Number(value.toPrecision(4)));
  }

  function ticked(value, ticks) {
    const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 0, digits = Math.ceil(-Math.log10(step) - 1e-9);
    const plain = step > 1e-7 && Math.abs(value) < 1e7 && Math.abs(ticks.at(-1)) >= 1e-3;
    return plain ? value.toFixed(Math.min(Math.max(0, digits), 8)) : written(value);
  }

  function linearTicks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(Number((k * step).toPrecision(12)));
    return ticks;
  }

  function logTicks(low, high) {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), every = Math.ceil((last - first) / 6);
    const factors = last - first <= 2 ? [1, 2, 5] : [1];
    const ticks = [];
    for (let power = first; power <= last; power++)
      if (every === 1 || power % every === 0) factors.forEach((factor) => ticks.push(Number(`${factor}e${power}`)));
    const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    return inside.length > 1 ? inside : linearTicks(low, high, 4);
  }

  class Axis {
    constructor(low, high, from, to, log, whole = false) {
      Object.assign(this, { low, high, from, to, log, whole });
      [this.a, this.b] = log ? [Math.log(low), Math.log(high)] : [low, high];
    }
    place(value) { return this.from + (((this.log ? Math.log(value) : value) - this.a) / (this.b - this.a)) * (this.to - this.from); }
    value(place) {
      const found = this.a + ((place - this.from) / (this.to - this.from)) * (this.b - this.a);
      return this.log ? Math.exp(found) : found;
    }
    get ticks() {
      if (this.log) return logTicks(this.low, this.high);
      const ticks = linearTicks(this.low, this.high, this.from > this.to ? 6.5 : this.to - this.from > 400 ? 7 : 5);
      return this.whole ? ticks.filter(Number.isInteger) : ticks;
    }
    get texts() { const ticks = this.ticks; return ticks.map((tick) => (this.log ? written(tick, 1e5) : ticked(tick, ticks))); }
  }

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.data = JSON.parse(figure.querySelector("script").textContent);
      this.hidden = new Set();
      this.zoom = this.focus = null;
      this.bars = this.data.kind === "bars";
      this.whole = this.data.series.every((series) => series.x.every(Number.isInteger));
      this.points = this.data.series.map((series, index) =>
        series.x.map((x, i) => ({ x, y: series.y[i], index })).filter((p) => p.y !== null && (!this.data.log_y || p.y > 0) && (!this.data.log_x || p.x > 0)));
      this.build();
      new ResizeObserver(() => this.draw()).observe(this.box);
    }

    colour(index) {
      const { colour, shade } = this.data.series[index];
      return shade === null ? `var(--s${colour % 8})` : `color-mix(in oklab, var(--late) ${Math.round(100 * shade)}%, var(--early))`;
    }

    build() {
      this.legend = make("div", { class: "legend", role: "group", "aria-label": "Series" });
      this.data.series.forEach((series, index) => this.legend.append(this.key(series, index)));
      this.reset = make("button", { type: "button", class: "reset", hidden: "" }, "Reset zoom");
      this.reset.onclick = () => this.zoomTo(null);
      this.box = make("div", { class: "plot", tabindex: "0", role: "application",
        "aria-label": `${this.data.title}. Arrow keys read values, plus zooms in, Escape zooms out.` });
      this.tip = make("div", { class: "tip", role: "status", hidden: "" });
      const table = make("details", { class: "numbers" });
      table.append(make("summary", {}, "Numbers"));
      table.addEventListener("toggle", () => table.children.length === 1 && table.append(this.table()));
      this.figure.append(this.legend, this.box, table);
      this.legend.append(this.reset);
      this.box.addEventListener("pointermove", (event) => this.move(event));
      this.box.addEventListener("pointerdown", (event) => this.press(event));
      this.box.addEventListener("pointerup", (event) => this.release(event));
      this.box.addEventListener("pointercancel", () => this.drop());
      this.box.addEventListener("pointerleave", () => !this.start && this.show(null));
      this.box.addEventListener("dblclick", () => this.zoomTo(null));
      this.box.addEventListener("keydown", (event) => this.keyed(event));
      this.box.addEventListener("blur", () => this.show(null));
    }

    key(series, index) {
      const button = make("button", { type: "button", "aria-pressed": "true", title: "Show or hide" });
      const sample = make("svg", { width: 26, height: 10, "aria-hidden": "true" });
      const mark = this.joined(index)
        ? make("line", { x1: 0, x2: 26, y1: 5, y2: 5, "stroke-width": 2.5, "stroke-dasharray": DASHES[series.dash] })
        : make("circle", { cx: 13, cy: 5, r: 4.5 });
      mark.style.stroke = mark.style.fill = this.colour(index);
      sample.append(mark);
      button.append(sample, make("span", {}, series.name));
      button.onclick = () => {
        this.hidden.has(index) ? this.hidden.delete(index) : this.hidden.add(index);
        button.setAttribute("aria-pressed", String(!this.hidden.has(index)));
        this.draw();
      };
      return button;
    }

    joined(index) { return this.data.kind === "line" || (this.data.kind === "points" && this.data.series[index].dash > 0); }

    visible() { return this.points.flatMap((points, index) => (this.hidden.has(index) ? [] : points)); }

    ranges() {
      const shown = this.visible(), all = shown.length ? shown : this.points.flat();
      const xs = this.data.series.flatMap((series, index) => (this.hidden.has(index) ? [] : series.x)), marks = Object.values(this.data.marks).filter((value) => !this.data.log_y || value > 0);
      const span = (values) => values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
      let [left, right] = this.zoom?.x ?? span(xs);
      const inside = all.filter((p) => p.x >= left && p.x <= right);
      let [low, high] = this.zoom?.y ?? (this.zoom ? null : this.data.y_range) ?? span([...(inside.length ? inside : all).map((p) => p.y), ...(this.zoom ? [] : marks), ...(this.bars ? [0] : [])]);
      if (!isFinite(left)) [left, right] = [0, 1];
      if (!isFinite(low)) [low, high] = this.data.log_y ? [0.1, 1] : [0, 1];
      if (left === right) [left, right] = [left - 0.5, right + 0.5];
      if (low === high) [low, high] = this.data.log_y ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) / 10, high + (Math.abs(high) || 1) / 10];
      if (!this.zoom?.y && (this.zoom || !this.data.y_range)) {
        const room = this.data.log_y ? (high / low) ** 0.05 : (high - low) * 0.05;
        [low, high] = this.data.log_y ? [low / room, high * room] : [this.bars ? 0 : low - room, high + room];
      }
      if (!this.zoom && this.bars) { const half = this.step() / 2; [left, right] = [left - half, right + half]; }
      return [left, right, low, high];
    }

    step() { const xs = this.points[0].map((p) => p.x); return xs.length > 1 ? xs[1] - xs[0] : 1; }

    draw() {
      const width = Math.max(240, this.box.clientWidth), [left, right, low, high] = this.ranges();
      this.width = width;
      this.y = new Axis(low, high, HEIGHT - MARGIN.bottom, MARGIN.top, this.data.log_y);
      this.left = LABEL + 8 + LETTER * Math.max(LEAST, ...this.y.texts.map((text) => text.length));
      this.x = new Axis(left, right, this.left, width - MARGIN.right, this.data.log_x, this.whole);
      const id = `clip-${[...document.querySelectorAll(".chart")].indexOf(this.figure)}`;
      const svg = make("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": this.figure.getAttribute("aria-label") });
      const clip = make("clipPath", { id });
      clip.append(make("rect", { x: this.left - 5, y: MARGIN.top - 5, width: width - this.left - MARGIN.right + 10, height: HEIGHT - MARGIN.top - MARGIN.bottom + 10 }));
      const inner = make("g", { "clip-path": `url(#${id})` });
      svg.append(clip, this.frame(), inner);
      for (const [label, value] of Object.entries(this.data.marks)) inner.append(...this.mark(label, value));
      this.points.forEach((points, index) => this.hidden.has(index) || inner.append(...this.curve(points, index)));
      this.cursor = make("g", { class: "cursor" });
      this.brush = make("rect", { class: "brush", hidden: "" });
      svg.append(this.cursor, this.brush);
      this.box.replaceChildren(svg, this.tip);
      this.reset.hidden = !this.zoom;
      this.show(null);
    }

    frame() {
      const frame = make("g", { class: "frame" }), bottom = HEIGHT - MARGIN.bottom;
      const [across, up] = [this.x.texts, this.y.texts];
      this.x.ticks.forEach((tick, i) => {
        const x = this.x.place(tick);
        frame.append(make("line", { x1: x, x2: x, y1: bottom, y2: bottom + 5 }), make("text", { x, y: bottom + 18, "text-anchor": "middle" }, across[i]));
      });
      this.y.ticks.forEach((tick, i) => {
        const y = this.y.place(tick);
        frame.append(make("line", { x1: this.left, x2: this.width - MARGIN.right, y1: y, y2: y, class: "grid" }),
          make("text", { x: this.left - 8, y: y + 4, "text-anchor": "end" }, up[i]));
      });
      frame.append(make("line", { x1: this.left, x2: this.width - MARGIN.right, y1: bottom, y2: bottom }),
        make("text", { x: (this.left + this.width - MARGIN.right) / 2, y: HEIGHT - 6, "text-anchor": "middle", class: "label" }, this.data.x_label),
        make("text", { transform: `translate(14 ${(MARGIN.top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "label" }, this.data.y_label));
      return frame;
    }

    mark(label, value) {
      if (this.data.log_y && value <= 0) return [];
      const y = this.y.place(value), right = this.width - MARGIN.right - 4, wide = LETTER * label.length;
      const left = this.covered(right - wide, right, y) && !this.covered(this.left, this.left + wide, y);
      const text = make("text", { x: left ? this.left + 4 : right, y: y - 6, "text-anchor": left ? "start" : "end", class: "mark" }, label);
      return [make("line", { x1: this.left, x2: this.width - MARGIN.right, y1: y, y2: y, class: "mark" }), text];
    }

    /* Whether a curve crosses the place of a label above the height y. */
    covered(from, to, y) {
      return this.points.some((points, index) => !this.hidden.has(index) && points.slice(1).some((p, i) => {
        const [a, b] = [points[i], p].map((point) => ({ x: this.x.place(point.x), y: this.y.place(point.y) }));
        const at = (x) => a.y + ((b.y - a.y) * (x - a.x)) / (b.x - a.x || 1);
        const ends = [at(Math.max(a.x, from)), at(Math.min(b.x, to))];
        return b.x >= from && a.x <= to && Math.min(...ends) < y + 2 && Math.max(...ends) > y - 20;
      }));
    }

    curve(points, index) {
      const colour = this.colour(index), drawn = [];
      if (this.bars) {
        const wide = Math.abs(this.x.place(this.step()) - this.x.place(0)) * 0.9, base = this.y.place(0);
        for (const p of points) drawn.push(make("rect", { x: this.x.place(p.x) - wide / 2, width: wide, y: this.y.place(p.y), height: Math.max(0, base - this.y.place(p.y)) }));
      } else {
        const joined = this.joined(index);
        if (joined) {
          const path = points.map((p, i) => `${i ? "L" : "M"}${this.x.place(p.x).toFixed(1)} ${this.y.place(p.y).toFixed(1)}`).join("");
          drawn.push(make("path", { d: path, fill: "none", "stroke-width": 2.2, "stroke-dasharray": DASHES[this.data.series[index].dash], class: "curve" }));
        }
        if (joined ? points.length <= 60 && this.data.kind === "line" : true)
          drawn.push(...points.map((p) => make("circle", { cx: this.x.place(p.x).toFixed(1), cy: this.y.place(p.y).toFixed(1), r: 3, class: "dot" })));
      }
      drawn.forEach((element) => { element.style[element.tagName === "path" ? "stroke" : "fill"] = colour; });
      return drawn;
    }

    at(event) {
      const box = this.box.getBoundingClientRect();
      return { x: ((event.clientX - box.left) / box.width) * this.width, y: event.clientY - box.top };
    }

    nearest({ x, y }) {
      const flat = this.data.kind === "points" ? 1 : 0.15;
      let best = null, least = Infinity;
      for (const p of this.visible()) {
        const far = Math.hypot(this.x.place(p.x) - x, flat * (this.y.place(p.y) - y));
        if (far < least) [best, least] = [p, far];
      }
      return least < NEAR || (best && this.data.kind !== "points") ? best : null;
    }

    show(point) {
      this.focus = point;
      this.tip.hidden = !point;
      this.cursor?.replaceChildren();
      if (!point) return;
      const x = this.x.place(point.x), name = this.data.x_names[point.x - 1];
      const rows = this.data.kind === "points" ? [point] : this.visible().filter((p) => p.x === point.x);
      rows.sort((a, b) => b.y - a.y);
      this.tip.replaceChildren(make("b", {}, `${this.data.x_label.replace(/ \(.*/, "")} ${written(point.x)}${name ? ` · ${name}` : ""}`));
      for (const row of rows.slice(0, ROWS)) {
        const line = make("div"), dot = make("i");
        dot.style.background = this.colour(row.index);
        line.append(dot, make("span", {}, this.data.series[row.index].name), make("em", {}, written(row.y)));
        this.tip.append(line);
      }
      if (rows.length > ROWS) this.tip.append(make("div", {}, `and ${rows.length - ROWS} more`));
      if (!this.bars) this.cursor.append(make("line", { x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }),
        ...rows.map((row) => make("circle", { cx: x, cy: this.y.place(row.y), r: 5 })));
      const scale = this.box.clientWidth / this.width, room = this.tip.offsetWidth + 16;
      this.tip.style.left = `${x * scale + room > this.box.clientWidth ? Math.max(0, x * scale - room) : x * scale + 16}px`;
      this.tip.style.top = `${Math.min(Math.max(0, this.y.place(point.y) - 20), HEIGHT - 60)}px`;
    }

    move(event) {
      const here = this.at(event);
      if (!this.start) return this.show(this.nearest(here));
      const [x, y] = [Math.min(here.x, this.start.x), Math.min(here.y, this.start.y)];
      const size = { x, y, width: Math.abs(here.x - this.start.x), height: Math.abs(here.y - this.start.y) };
      for (const [name, value] of Object.entries(size)) this.brush.setAttribute(name, value);
      this.brush.toggleAttribute("hidden", size.width < DRAG);
    }

    press(event) {
      if (event.button) return;
      this.start = this.at(event);
      this.box.setPointerCapture(event.pointerId);
      this.show(null);
    }

    drop() { this.start = null; this.brush.setAttribute("hidden", ""); }

    release(event) {
      const [from, to] = [this.start, this.at(event)];
      this.drop();
      if (!from || Math.abs(to.x - from.x) < DRAG) return this.show(this.nearest(to));
      const order = (a, b) => [Math.min(a, b), Math.max(a, b)];
      const x = order(this.x.value(from.x), this.x.value(to.x));
      this.zoomTo({ x, y: Math.abs(to.y - from.y) < 3 * DRAG ? null : order(this.y.value(from.y), this.y.value(to.y)) });
    }

    zoomTo(zoom) { this.zoom = zoom; this.draw(); }

    keyed(event) {
      const places = [...new Set(this.visible().map((p) => p.x))].sort((a, b) => a - b);
      const now = places.indexOf(this.focus?.x), move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (move && places.length) {
        const x = places[now < 0 ? 0 : Math.min(Math.max(now + move, 0), places.length - 1)];
        this.show(this.visible().find((p) => p.x === x));
      } else if (event.key === "Escape") this.zoomTo(null);
      else if (event.key === "+" || event.key === "=") {
        const middle = this.focus?.x ?? (this.x.low + this.x.high) / 2, half = (this.x.high - this.x.low) / 4;
        this.zoomTo({ x: [middle - half, middle + half], y: null });
      } else return;
      event.preventDefault();
    }

    table() {
      const box = make("div", { class: "wide", tabindex: "0" }), table = make("table"), head = make("tr"), body = make("tbody");
      const row = (line, cells) => { cells.forEach((cell) => line.append(make("td", { class: "number" }, cell))); body.append(line); };
      head.append(...["series", this.data.x_label, this.data.y_label].map((text) => make("th", { scope: "col" }, text)));
      this.points.forEach((points, index) => points.forEach((p) => {
        const line = make("tr");
        line.append(make("th", { scope: "row" }, this.data.series[index].name));
        row(line, [written(p.x), written(p.y)]);
      }));
      const top = make("thead");
      top.append(head);
      table.append(make("caption", {}, this.data.title), top, body);
      box.append(table);
      return box;
    }
  }

  document.querySelectorAll("figure.chart").forEach((figure) => new Chart(figure));
})();

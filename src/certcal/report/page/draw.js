// A tiny plotting layer: SVG elements, scales with round ticks, axes, legends. A plot is drawn at the width it has, so
// that its text keeps its size, and drawn anew when the radius or the width changes.

const EMPTY = "No input is certified at this radius.";

function draw(parent, tag, attributes = {}, text = undefined) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function make(tag, parent, text = undefined, className = "") {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  parent.append(node);
  return node;
}

/** The distance of about `count` round ticks between two values: 1, 2 or 5 times a power of ten. */
function roundStep(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((factor) => factor * power > 0.7 * raw);
}

function ticks(low, high, step) {
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

function linear(from, to, start, end) {
  return (value) => start + ((value - from) / (to - from)) * (end - start);
}

const plots = [];
let onPaper = false;

/** The height of a plot: what suits the screen, or less on paper, where figures share a page. */
function tall(screen, paper) {
  return onPaper ? paper : screen;
}

/** Register a plot: `paint(plot, width)` fills its empty `plot.svg` and describes it. */
function makePlot(name, paint) {
  const host = document.getElementById(`plot-${name}`);
  const svg = draw(host, "svg", { role: "img", tabindex: 0 });
  const plot = { name, host, svg, paint, legend: document.getElementById(`legend-${name}`) };
  plots.push(plot);
  listen(plot);
  return plot;
}

function repaint(plot, width = plot.host.clientWidth) {
  if (width < 40) return; // not on screen
  plot.svg.replaceChildren();
  plot.legend.replaceChildren();
  plot.inspected = null;
  plot.paint(plot, width);
}

/**
 * Axes, grid and labels. `x` and `y` are {from, to, label, text, count}; the result places values in the plot:
 * {x(value), y(value), left, right, top, bottom, marks, cursor}.
 */
function axes(plot, { width, height, x, y, left = 46, right = 10, top = 26, bottom = 40, inset = 0, full = height }) {
  const { svg } = plot;
  svg.setAttribute("viewBox", `0 0 ${width} ${full}`);
  const area = { left, right: width - right, top, bottom: height - bottom };
  area.x = linear(x.from, x.to, area.left + inset, area.right - inset);
  area.y = linear(y.from, y.to, area.bottom, area.top);
  area.grid = draw(svg, "g", { "aria-hidden": "true" });
  gridY(area, y);
  gridX(area, x);
  draw(area.grid, "line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom });
  draw(svg, "rect", { class: "area", x: left, y: top, width: area.right - left, height: area.bottom - top });
  area.marks = draw(svg, "g", { class: "marks" });
  area.cursor = draw(svg, "g", { class: "cursor" });
  return area;
}

function gridY(area, y) {
  const step = y.step ?? roundStep(y.from, y.to, y.count ?? 4);
  for (const value of ticks(y.from, y.to, step)) {
    const at = area.y(value);
    draw(area.grid, "line", { class: "grid", x1: area.left, x2: area.right, y1: at, y2: at });
    draw(area.grid, "text", { x: area.left - 8, y: at + 4, "text-anchor": "end" }, y.text(value, step));
  }
  draw(area.grid, "text", { x: 0, y: area.top - 14 }, y.label);
}

function gridX(area, x, labelled = true) {
  if (!x.text) return;
  const step = x.step ?? roundStep(x.from, x.to, Math.max(2, Math.min(x.count ?? 8, (area.right - area.left) / 80)));
  for (const value of ticks(x.from, x.to, step)) {
    const at = area.x(value);
    draw(area.grid, "line", { class: "axis", x1: at, x2: at, y1: area.bottom, y2: area.bottom + 4 });
    draw(area.grid, "text", { x: at, y: area.bottom + 18, "text-anchor": "middle" }, x.text(value, step));
  }
  if (labelled && x.label) {
    draw(area.grid, "text", { x: area.right, y: area.bottom + 35, "text-anchor": "end" }, x.label);
  }
}

/** In place of axes without anything between them. */
function emptyPlot(plot, width, text = EMPTY) {
  plot.svg.setAttribute("viewBox", `0 0 ${width} 64`);
  draw(plot.svg, "rect", { class: "blank", width, height: 64, rx: 6 });
  draw(plot.svg, "text", { x: width / 2, y: 36, "text-anchor": "middle" }, text);
  plot.svg.setAttribute("aria-label", text);
}

/** One entry of the legend; `swatch(svg)` draws in a box of 22 by 12. */
function legendEntry(plot, text, swatch) {
  const item = make("li", plot.legend);
  swatch(draw(item, "svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }));
  make("span", item, text);
}

const SHAPES = {
  circle: (size) => `M${-size} 0a${size} ${size} 0 1 0 ${2 * size} 0a${size} ${size} 0 1 0 ${-2 * size} 0z`,
  square: (size) => `M${-size} ${-size}h${2 * size}v${2 * size}h${-2 * size}z`,
  diamond: (size) => `M0 ${-1.3 * size}L${1.3 * size} 0L0 ${1.3 * size}L${-1.3 * size} 0z`,
  triangle: (size) => `M0 ${-1.2 * size}L${1.2 * size} ${size}H${-1.2 * size}z`,
};

function marker(parent, shape, x, y, size, className) {
  return draw(parent, "path", { d: SHAPES[shape](size), transform: `translate(${x} ${y})`, class: className });
}

/** A filled pattern of stripes in the colour of a class, so that what is filled is seen without colour too. */
function stripes(plot, className) {
  const id = `stripes-${plot.name}-${className}`;
  const pattern = draw(draw(plot.svg, "defs"), "pattern", {
    id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)",
  });
  draw(pattern, "line", { class: className, x1: 0, y1: 0, x2: 0, y2: 6, "stroke-width": 2.5 });
  return `url(#${id})`;
}

// Under attack: clean, attacked and certified errors against the radius, reliability before and after. Inert without.

const { sandwich, ace } = page.attack ?? {};
const LAYERS = [
  { key: "limit_ece", look: "neutral", dash: "2 4", text: "refuted above this", way: "up" },
  { key: "certified_ece", look: "incorrect", shape: "circle", text: "certified, from above", way: "up" },
  { key: "attacked_ece", look: "attacked", shape: "square", text: "attacked, from below" },
  { key: "clean_ece", look: "correct", shape: "circle", text: "clean" },
];

function sandwichPlot() {
  const { curves } = sandwich;
  return makePlot("sandwich", (plot, width) => {
    const highest = Math.max(...curves.flatMap((point) => LAYERS.map(({ key }) => point[key])), 1e-3);
    const step = roundStep(0, highest, 4), to = Math.min(1, Math.ceil(highest / step - 1e-9) * step);
    const area = axes(plot, {
      width, height: width > 600 ? tall(360, 210) : tall(290, 200), inset: 12, left: 50,
      x: { from: 0, to: curves.at(-1).radius, label: "radius R", text: axisText(false) },
      y: { from: 0, to, step, label: "ECE", text: axisText(true) },
    });
    const at = (key) => (point) => `${area.x(point.radius)} ${area.y(point[key])}`;
    const between = [...curves.map(at("certified_ece")), ...[...curves].reverse().map(at("attacked_ece"))];
    if (curves.length > 1) draw(area.marks, "path", { class: "gap", d: `M${between.join("L")}Z` });
    for (const layer of LAYERS) drawLayer(plot, area, layer, curves.map(at(layer.key)));
    inspectSandwich(plot, area);
    plot.svg.setAttribute("aria-label", `Plot against the radius. ${curves.map(describePoint).join("; ")}. Arrow keys read values.`);
  });
}

function drawLayer(plot, area, { look, dash, shape, text, key }, points) {
  const dashes = dash ? { "stroke-dasharray": dash } : {};
  draw(area.marks, "path", { class: `${look} line`, d: `M${points.join("L")}`, ...dashes });
  for (const point of shape ? sandwich.curves : []) marker(area.marks, shape, area.x(point.radius), area.y(point[key]), 3.6, `${look} point`);
  legendEntry(plot, text, (svg) => {
    draw(svg, "line", { class: look, x1: 0, x2: 22, y1: 6, y2: 6, "stroke-width": 2, ...dashes });
    if (shape) marker(svg, shape, 11, 6, 3.4, look);
  });
}

const percentText = (value, way) => writtenShare(value, true, way, 4);

function describePoint(point) {
  return `R = ${radiusText(point.radius)}: ${LAYERS.map(({ key, text, way }) => `${text} ${percentText(point[key], way)}`).join(", ")}`;
}

function inspectSandwich(plot, area) {
  const { curves, views } = sandwich, at = curves.map((point) => area.x(point.radius));
  inspectable(plot, area, {
    count: curves.length,
    nearest: (x) => closest(at, (i) => Math.abs(at[i] - x)),
    spot: (i) => [at[i], (area.top + area.bottom) / 2],
    tell: (i) => [views[i].where, LAYERS.map(({ key, text, way }) => [text, percentText(curves[i][key], way)])],
    mark: (i, cursor) => draw(cursor, "line", { class: "cross", x1: at[i], x2: at[i], y1: area.top, y2: area.bottom }),
  });
}

/** The attack at the radius closest to the chosen one. */
function attackView() {
  const { views } = sandwich, { radius } = page.rows[chosen];
  const view = views[closest(views, (i) => Math.abs(views[i].radius - radius))];
  const note = view.radius === radius ? "" : `R = ${radiusText(radius)} was not attacked; shown is the nearest, ${radiusText(view.radius)}. `;
  return { ...view, sentence: note + view.sentence };
}

/** The pair of diagrams says which attack it is about. */
function entitle(name, text, value) {
  const head = document.getElementById(`title-${name}`);
  head.replaceChildren(text, " ");
  make("span", head, value, "value");
}

function beforeAfter(name, look) {
  reliabilityPlot(name, look, () => {
    const { edges, before, after, errors, where, sentence } = attackView();
    const own = { before: ["Reliability before the attack", errors[0]], after: [`Reliability after: ${where}`, errors[1]] }[name];
    entitle(name, own[0], `ECE ${own[1]}`);
    document.getElementById("tightness").textContent = sentence;
    return { bins: { before, after }[name], edges, most: Math.max(...before.count, ...after.count) };
  });
}

function acePlots() {
  let shown = ace.strongest;
  const { views, edges } = ace, lines = [...document.querySelectorAll("#ace tbody tr")];
  const place = (n) => ({ bins: views[n].bins, edges, most: Math.max(...views[0].bins.count, ...views[shown].bins.count) });
  const clean = reliabilityPlot("unattacked", "correct", () => {
    entitle("unattacked", "Reliability, no attack", `ECE ${views[0].error}`);
    return place(0);
  });
  const after = reliabilityPlot("attacked", "attacked", () => {
    entitle("attacked", `Reliability under ${views[shown].name}`, `ECE ${views[shown].error}`);
    return place(shown);
  });
  const budgets = (views.length - 1) / (lines.length - 1); // attacks of one line follow one another, by budget
  const select = (n) => {
    shown = n;
    lines.forEach((line, i) => line.toggleAttribute("aria-current", i > 0 && Math.ceil(n / budgets) === i));
    [clean, after].forEach((plot) => repaint(plot));
  };
  lines.forEach((line, i) => {
    if (i === 0) return;
    const own = Array.from({ length: budgets }, (_, k) => (i - 1) * budgets + k + 1);
    const next = () => select(own[(own.indexOf(shown) + 1) % budgets]); // again: the next budget
    line.tabIndex = 0;
    line.addEventListener("click", next);
    line.addEventListener("keydown", (event) => event.key === "Enter" && next());
  });
  select(shown);
}

if (sandwich) {
  sandwichPlot();
  beforeAfter("before", "correct");
  beforeAfter("after", "attacked");
}
if (ace) acePlots();

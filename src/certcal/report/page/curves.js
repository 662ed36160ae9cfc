// What is certified against the radius: lines over R, the chosen radius marked, a click chooses another.

const approximations = page.columns.map((column) => column.key).filter((key) => key.startsWith("approximate_"));
const OTHERS = ["square", "triangle", "diamond"];

const CURVES = {
  ece: [
    { key: "joint_ece", look: "incorrect", dash: "6 4", shape: "diamond", hollow: true },
    { key: "certified_ece", look: "incorrect", shape: "circle", band: "ece" },
    ...approximations.map((key, i) => ({ key, look: "neutral", dash: "3 3", shape: OTHERS[i % 3], hollow: true })),
    { key: "before_certified_ece", look: "neutral", dash: "3 3", shape: "square", hollow: true },
    { key: "ece", look: "correct", shape: "circle" },
    { key: "ece_all", look: "neutral", shape: "triangle", hollow: true },
  ],
  brier: [
    { key: "joint_brier", look: "incorrect", dash: "6 4", shape: "diamond", hollow: true },
    { key: "certified_brier", look: "incorrect", shape: "circle", band: "brier" },
    { key: "before_certified_brier", look: "neutral", dash: "3 3", shape: "square", hollow: true },
    { key: "brier", look: "correct", shape: "circle" },
    { key: "brier_all", look: "neutral", shape: "triangle", hollow: true },
  ],
  accuracy: [
    { key: "certified", look: "neutral", dash: "3 3", shape: "square", hollow: true, of: page.inputs, text: "certified, right or wrong" },
    { key: "joint_accuracy", look: "correct", dash: "6 4", shape: "diamond", hollow: true },
    { key: "certified_accuracy", look: "correct", shape: "circle" },
  ],
};

function curvePlot(name, yLabel, wide) {
  const lines = CURVES[name]
    .map((line) => ({ ...line, values: page.rows.map((row) => scaled(row[line.key], line.of)) }))
    .filter((line) => line.values.some((value) => value !== null));
  const percent = lines.some((line) => inPercent(line.key));
  return makePlot(name, (plot, width) => {
    if (!lines.length) return emptyPlot(plot, width, "No input is certified at any of these radii.");
    const area = curveAxes(plot, width, lines, percent, yLabel, wide);
    drawChosen(area);
    for (const line of lines) drawBand(area, line, lines);
    for (const line of lines) drawCurve(plot, area, line);
    inspectCurves(plot, area, lines);
    plot.svg.setAttribute("aria-label", describeCurves(lines));
  });
}

function scaled(value, whole) {
  return value === null || value === undefined ? null : whole ? value / whole : value;
}

function curveAxes(plot, width, lines, percent, yLabel, wide) {
  const last = page.rows[order.at(-1)].radius || 1;
  const highest = Math.max(...lines.flatMap((line) => line.values), 1e-3);
  const step = roundStep(0, highest, 4);
  const y = { from: 0, to: Math.ceil(highest / step - 1e-9) * step, step, label: yLabel, text: axisText(percent) };
  const x = { from: 0, to: last, label: "radius R", text: axisText(false) };
  return axes(plot, { width, height: wide && width > 600 ? tall(340, 210) : tall(290, 190), x, y, inset: 12, left: 50 });
}

function drawChosen(area) {
  const x = area.x(page.rows[chosen].radius), late = x > (area.left + area.right) / 2;
  draw(area.grid, "line", { class: "now", x1: x, x2: x, y1: area.top - 4, y2: area.bottom });
  const at = { x: late ? x - 6 : x + 6, y: area.top + 6, "text-anchor": late ? "end" : "start", class: "now" };
  draw(area.grid, "text", at, `R = ${cell(chosen, "radius")}`);
}

/** The room between the clean curve and the certified one. */
function drawBand(area, line, lines) {
  const base = lines.find((other) => other.key === line.band);
  if (!base) return;
  const kept = order.filter((i) => line.values[i] !== null && base.values[i] !== null);
  const point = (values) => (i) => `${area.x(page.rows[i].radius)} ${area.y(values[i])}`;
  const path = [...kept.map(point(line.values)), ...kept.reverse().map(point(base.values))];
  if (path.length > 2) draw(area.marks, "path", { class: "gap", d: `M${path.join("L")}Z` });
}

function drawCurve(plot, area, line) {
  let path = "", pen = "M";
  order.map((i) => [line.values[i], i]).forEach(([value, i]) => {
    if (value !== null) path += `${pen}${area.x(page.rows[i].radius)} ${area.y(value)}`;
    pen = value === null ? "M" : "L";
  });
  const dash = line.dash ? { "stroke-dasharray": line.dash } : {};
  draw(area.marks, "path", { class: `${line.look} line`, d: path, ...dash });
  line.values.forEach((value, i) => {
    if (value === null) return;
    const size = i === chosen ? 5 : 3.2, look = `${line.look} point${line.hollow ? " hollow" : ""}`;
    marker(area.marks, line.shape, area.x(page.rows[i].radius), area.y(value), size, look);
  });
  legendEntry(plot, line.text ?? label(line.key), (svg) => {
    draw(svg, "line", { class: line.look, x1: 0, x2: 22, y1: 6, y2: 6, "stroke-width": 2, ...dash });
    marker(svg, line.shape, 11, 6, 3.2, `${line.look}${line.hollow ? " hollow" : ""}`);
  });
}

function valueText(line, i) {
  return line.of ? `${cell(i, line.key)} of ${line.of}` : cell(i, line.key) || writtenShare(line.values[i], inPercent(line.key), "up");
}

function inspectCurves(plot, area, lines) {
  const at = order.map((row) => area.x(page.rows[row].radius)), value = (line, i) => line.values[order[i]];
  inspectable(plot, area, {
    count: page.rows.length,
    start: order.indexOf(chosen),
    nearest: (x) => closest(at, (i) => Math.abs(at[i] - x)),
    spot: (i) => [at[i], (area.top + area.bottom) / 2],
    tell: (i) => [`R = ${cell(order[i], "radius")}`, lines.map((line) => [line.text ?? label(line.key), valueText(line, order[i])])],
    mark: (i, cursor) => {
      draw(cursor, "line", { class: "cross", x1: at[i], x2: at[i], y1: area.top, y2: area.bottom });
      for (const line of lines) {
        if (value(line, i) !== null) draw(cursor, "circle", { class: "halo", cx: at[i], cy: area.y(value(line, i)), r: 6.5 });
      }
    },
    choose: (i) => choose(order[i]),
  });
}

function describeCurves(lines) {
  const first = order[0], last = order.at(-1);
  const ends = (line) => `${line.text ?? label(line.key)} ${valueText(line, first)} at R = ${cell(first, "radius")}` +
    (last !== first ? ` and ${valueText(line, last)} at R = ${cell(last, "radius")}` : "");
  return `Plot against the radius: ${lines.map(ends).join("; ")}. Arrow keys read values, Enter chooses a radius.`;
}

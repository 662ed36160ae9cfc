// What happens at the chosen radius: reliability clean and at the worst case, certified boxes, widths, moves.

const unit = { from: 0, to: 1, step: 0.2, text: axisText(false) };
const side = (correct) => (correct ? "correct" : "incorrect");
const verdict = (correct) => (correct ? "right" : "wrong");
const view = () => page.views[chosen];
const patch = (look, extra = "") => (svg) => draw(svg, "rect", { class: `${look} ${extra}`, x: 3, y: 0, width: 16, height: 12 });

/** What both diagrams of the chosen radius share: their edges and the largest count. */
function pairOf({ edges, clean, worst }) {
  return { edges, most: Math.max(...clean.count, ...(worst?.count ?? []), 1) };
}

/** `source()` gives the bins to draw, their edges and the count that fills the strip below. */
function reliabilityPlot(name, look, source = () => ({ bins: view()[name], ...pairOf(view()) })) {
  return makePlot(name, (plot, width) => {
    const { bins, edges, most } = source();
    const filled = bins ? bins.count.map((_, m) => m).filter((m) => bins.count[m] > 0) : [];
    if (!filled.length) return emptyPlot(plot, width);
    const high = tall(Math.max(200, Math.min(0.82 * width, 380)), 170), strip = tall(66, 48);
    const area = axes(plot, {
      width, height: high, full: high + strip + 40, bottom: 8, right: 14,
      x: { from: 0, to: 1 }, y: { ...unit, label: "accuracy" },
    });
    draw(area.grid, "line", { class: "diagonal", x1: area.x(0), y1: area.y(0), x2: area.x(1), y2: area.y(1) });
    const counts = countStrip(area, high, strip, most);
    drawBins(plot, area, counts, bins, filled, look, edges);
    inspectBins(plot, area, bins, filled, edges);
    const gaps = filled.map((m) => `${binName(edges, m)}: accuracy ${written(bins.accuracy[m])}, confidence ${written(bins.confidence[m])}`);
    plot.svg.setAttribute("aria-label", `Reliability diagram over ${filled.length} bins. ${gaps.join("; ")}.`);
  });
}

/** The lower part of a reliability diagram, where the inputs are counted; both diagrams share its scale. */
function countStrip(area, high, strip, most) {
  const low = { ...area, top: high + 14, bottom: high + strip };
  low.y = linear(0, most, low.bottom, low.top);
  draw(area.grid, "text", { x: area.left - 8, y: low.top + 6, "text-anchor": "end" }, most);
  draw(area.grid, "text", { x: 0, y: low.bottom - 12 }, "inputs");
  draw(area.grid, "line", { class: "grid", x1: area.left, x2: area.right, y1: low.top, y2: low.top });
  draw(area.grid, "line", { class: "axis", x1: area.left, x2: area.right, y1: low.bottom, y2: low.bottom });
  gridX(low, { ...unit, label: "confidence" });
  return low;
}

function drawBins(plot, area, counts, bins, filled, look, edges) {
  const fill = stripes(plot, look);
  for (const m of filled) {
    const x = area.x(edges[m]) + 0.75, width = Math.max(1, area.x(edges[m + 1]) - x - 0.75);
    const low = Math.min(bins.confidence[m], bins.accuracy[m]), tall = Math.abs(bins.confidence[m] - bins.accuracy[m]);
    const box = { x, width, y: area.y(low + tall), height: area.y(low) - area.y(low + tall) };
    draw(area.marks, "rect", { class: `${look} tint`, ...box });
    draw(area.marks, "rect", { ...box, fill, opacity: 0.4 });
    const level = { x1: x, x2: x + width, y1: area.y(bins.confidence[m]), y2: area.y(bins.confidence[m]) };
    draw(area.marks, "line", { class: `${look} level`, ...level });
    draw(area.marks, "circle", { class: `${look} point`, cx: x + width / 2, cy: area.y(bins.accuracy[m]), r: 4 });
    const top = counts.y(bins.count[m]);
    draw(area.grid, "rect", { class: "neutral fade", x, width, y: top, height: Math.max(0.5, counts.bottom - top) });
  }
  legendEntry(plot, "accuracy", (svg) => draw(svg, "circle", { class: look, cx: 11, cy: 6, r: 4 }));
  legendEntry(plot, "mean confidence", (svg) => draw(svg, "line", { class: `${look} level`, x1: 2, x2: 20, y1: 6, y2: 6 }));
  legendEntry(plot, "gap", patch(look, "tint"));
}

function binName(edges, m) {
  return `confidence ${written(edges[m])} to ${written(edges[m + 1])}`;
}

function inspectBins(plot, area, bins, filled, edges) {
  const middle = (m) => area.x((edges[m] + edges[m + 1]) / 2);
  inspectable(plot, area, {
    count: filled.length,
    nearest: (x) => closest(filled, (i) => Math.abs(middle(filled[i]) - x)),
    spot: (i) => [middle(filled[i]), area.y(bins.accuracy[filled[i]])],
    tell: (i) => {
      const m = filled[i], gap = bins.accuracy[m] - bins.confidence[m];
      return [binName(edges, m), [
        ["inputs", String(bins.count[m])],
        ["accuracy", written(bins.accuracy[m])],
        ["mean confidence", written(bins.confidence[m])],
        [gap < 0 ? "over-confident by" : "under-confident by", written(Math.abs(gap), "up")],
      ]];
    },
    mark: (i, cursor) => {
      const x = area.x(edges[filled[i]]), width = area.x(edges[filled[i] + 1]) - x;
      draw(cursor, "rect", { class: "spot", x, width, y: area.top, height: area.bottom - area.top });
    },
  });
}

function howMany(shown, all) {
  return `${shown < all ? `${shown} of ` : ""}${all} input${all === 1 ? "" : "s"}`;
}

/** Where an axis of confidences starts: the round value below all of them. */
function floorOf(values) {
  return Math.floor(Math.min(1, ...values.filter((value) => value !== null)) / 0.2 - 0.1) * 0.2;
}

function boxesPlot() {
  return makePlot("boxes", (plot, width) => {
    const boxes = view().boxes, n = boxes?.lower.length ?? 0;
    if (!n) return emptyPlot(plot, width);
    const about = `${howMany(n, boxes.inputs)}, by certified confidence`, x = { from: -0.5, to: n - 0.5 };
    const y = { ...unit, from: floorOf(boxes.lower), label: "confidence" };
    const area = axes(plot, { width, height: tall(width > 600 ? 360 : 300, 200), bottom: 26, x, y });
    draw(area.grid, "text", { x: area.right, y: area.bottom + 19, "text-anchor": "end" }, about);
    const wide = Math.min(40, ((area.right - area.left) / n) * (width > 600 ? 0.72 : 0.8));
    for (let i = 0; i < n; i++) drawBox(area, boxes, i, wide);
    legendEntry(plot, "prediction right", patch("correct", "fade"));
    legendEntry(plot, "prediction wrong", patch("incorrect"));
    legendEntry(plot, "worst case", (svg) => draw(svg, "line", { class: "tick", x1: 5, x2: 17, y1: 6, y2: 6 }));
    inspectBoxes(plot, area, boxes, n);
    plot.svg.setAttribute("aria-label", `Certified confidences of ${about}. Arrow keys read values.`);
  });
}

function drawBox(area, boxes, i, wide) {
  const x = area.x(i) - wide / 2, tall = Math.max(2, area.y(boxes.lower[i]) - area.y(boxes.upper[i]));
  const look = boxes.correct[i] ? "correct fade" : "incorrect";
  draw(area.marks, "rect", { class: look, x, width: wide, y: area.y(boxes.upper[i]), height: tall });
  if (boxes.worst?.[i] === null || boxes.worst?.[i] === undefined) return;
  const y = area.y(boxes.worst[i]);
  draw(area.marks, "line", { class: "tick", x1: x, x2: x + wide, y1: y, y2: y });
}

function inspectBoxes(plot, area, boxes, n) {
  inspectable(plot, area, {
    count: n,
    nearest: (x) => closest(boxes.lower, (i) => Math.abs(area.x(i) - x)),
    spot: (i) => [area.x(i), area.y(boxes.upper[i])],
    tell: (i) => [`input ${boxes.index[i]}`, [
      ["prediction", verdict(boxes.correct[i])],
      ["confidence at least", written(boxes.lower[i], "down")],
      ["confidence at most", written(boxes.upper[i], "up")],
      ["worst case", written(boxes.worst?.[i])],
    ]],
    mark: (i, cursor) => {
      const half = (area.right - area.left) / n / 2 + 1, y = area.y(boxes.upper[i]) - 3;
      draw(cursor, "rect", { class: "halo", x: area.x(i) - half, width: 2 * half, y, height: area.y(boxes.lower[i]) - y + 3 });
    },
  });
}

function widthsPlot() {
  return makePlot("widths", (plot, width) => {
    const { edges, correct = [], incorrect = [] } = view().widths ?? {};
    const sums = correct.map((count, i) => count + incorrect[i]), most = Math.max(...sums, 1);
    if (!sums.some((count) => count > 0)) return emptyPlot(plot, width);
    const step = Math.max(1, roundStep(0, most, 4)), whole = (value) => value.toFixed(0);
    const y = { from: 0, to: Math.ceil(most / step) * step, step, label: "inputs", text: whole };
    const x = { from: edges[0], to: edges.at(-1), label: "width of the certificate", text: axisText(false), count: 5 };
    const area = axes(plot, { width, height: tall(Math.max(280, Math.min(0.8 * width, 380)), 200), x, y, right: 14 });
    sums.forEach((sum, i) => {
      const at = { x: area.x(edges[i]) + 0.75, width: Math.max(1, area.x(edges[i + 1]) - area.x(edges[i]) - 1.5) };
      const [middle, top] = [area.y(incorrect[i]), area.y(sum)];
      if (incorrect[i]) draw(area.marks, "rect", { class: "incorrect", ...at, y: middle, height: area.bottom - middle });
      if (correct[i]) draw(area.marks, "rect", { class: "correct fade", ...at, y: top, height: middle - top });
    });
    legendEntry(plot, "prediction right", patch("correct", "fade"));
    legendEntry(plot, "prediction wrong", patch("incorrect"));
    inspectWidths(plot, area, edges, correct, incorrect);
    plot.svg.setAttribute("aria-label", `Histogram of the widths of ${sums.reduce((a, b) => a + b)} certificates. Arrow keys read values.`);
  });
}

function inspectWidths(plot, area, edges, correct, incorrect) {
  const middle = (i) => area.x((edges[i] + edges[i + 1]) / 2);
  inspectable(plot, area, {
    count: correct.length,
    nearest: (x) => closest(correct, (i) => Math.abs(middle(i) - x)),
    spot: (i) => [middle(i), area.y(correct[i] + incorrect[i])],
    tell: (i) => [`width ${written(edges[i])} to ${written(edges[i + 1])}`, [
      ["right", String(correct[i])], ["wrong", String(incorrect[i])],
    ]],
    mark: (i, cursor) => {
      const x = area.x(edges[i]), width = area.x(edges[i + 1]) - x;
      draw(cursor, "rect", { class: "spot", x, width, y: area.top, height: area.bottom - area.top });
    },
  });
}

function movesPlot() {
  return makePlot("moves", (plot, width) => {
    const { moves } = view(), shown = (moves?.clean ?? []).map((_, i) => i).filter((i) => moves.worst[i] !== null);
    if (!shown.length) return emptyPlot(plot, width);
    const from = floorOf([...moves.clean, ...moves.worst]);
    const [x, y] = ["clean confidence", "at the worst case"].map((label) => ({ ...unit, from, label }));
    const area = axes(plot, { width, height: tall(Math.max(280, Math.min(0.8 * width, 380)), 200), x, y, right: 14 });
    draw(area.grid, "line", { class: "diagonal", x1: area.x(from), y1: area.y(from), x2: area.x(1), y2: area.y(1) });
    for (const flag of [1, 0]) {
      for (const i of shown.filter((i) => Number(moves.correct[i]) === flag)) {
        const [x, from, to] = [area.x(moves.clean[i]), area.y(moves.clean[i]), area.y(moves.worst[i])];
        draw(area.marks, "line", { class: `${side(flag)} thin`, x1: x, x2: x, y1: from, y2: to });
        marker(area.marks, flag ? "circle" : "diamond", x, to, 3, `${side(flag)} point`);
      }
    }
    legendEntry(plot, "prediction right", (svg) => marker(svg, "circle", 11, 6, 3.4, "correct"));
    legendEntry(plot, "prediction wrong", (svg) => marker(svg, "diamond", 11, 6, 3.4, "incorrect"));
    inspectMoves(plot, area, moves, shown);
    const about = `of ${howMany(shown.length, moves.inputs)}`;
    plot.svg.setAttribute("aria-label", `Clean confidence and confidence at the worst case, ${about}. Arrow keys read values.`);
  });
}

function inspectMoves(plot, area, moves, shown) {
  const order = [...shown].sort((i, j) => moves.clean[i] - moves.clean[j]);
  const spots = order.map((i) => [area.x(moves.clean[i]), area.y(moves.worst[i])]);
  inspectPoints(plot, area, spots, (k) => [`input ${moves.index[order[k]]}`, [
    ["prediction", verdict(moves.correct[order[k]])],
    ["clean confidence", written(moves.clean[order[k]])],
    ["worst case", written(moves.worst[order[k]])],
  ]], 7);
}

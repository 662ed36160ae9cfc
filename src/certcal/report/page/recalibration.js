// What recalibration did: the trade-off over λ, or the maps that one was chosen from; and the graph of the map.

function tradeOffPlot() {
  const { curve, identity } = page.recalibration;
  const known = curve.clean_weight.map((_, i) => i).filter((i) => curve.certified_brier[i] !== null && curve.brier_all[i] !== null);
  const points = known.map((i) => ({
    title: `λ = ${curve.clean_weight[i]}`, chosen: curve.clean_weight[i] === curve.chosen, x: curve.certified_brier[i], y: curve.brier_all[i], auroc: curve.auroc[i],
  }));
  const before = { title: "without a map", x: identity.certified_brier, y: identity.brier_all };
  const all = before.x === null ? points : [...points, before];
  return makePlot("tradeoff", (plot, width) => {
    if (!points.length) return emptyPlot(plot, width, "No held-out input is certified at this radius.");
    const span = (key) => fitted(all.map((point) => point[key]));
    const x = { ...span("x"), label: `certified Brier score at R = ${curve.radius}`, text: axisText(false), count: 5 };
    const y = { ...span("y"), label: "clean Brier score, all inputs", text: axisText(false) };
    const area = axes(plot, { width, height: tall(320, 200), x, y, inset: 12, left: 56 });
    const at = (point) => [area.x(point.x), area.y(point.y)];
    draw(area.marks, "path", { class: "correct line", d: `M${points.map((point) => at(point).join(" ")).join("L")}` });
    for (const point of points) marker(area.marks, "circle", ...at(point), point.chosen ? 5 : 3.2, "correct point");
    if (all.length > points.length) marker(area.marks, "diamond", ...at(before), 4, "incorrect point");
    labelEnds(area, points, at);
    legendEntry(plot, "recalibrated", (svg) => marker(svg, "circle", 11, 6, 3.2, "correct"));
    legendEntry(plot, "without a map", (svg) => marker(svg, "diamond", 11, 6, 4, "incorrect"));
    inspectPoints(plot, area, all.map(at), (i) => [all[i].title, [
      ["certified Brier", written(all[i].x, "nearest", 4)], ["clean Brier, all", written(all[i].y, "nearest", 4)],
      ...(all[i].auroc === undefined ? [] : [["AUROC", written(all[i].auroc)]]),
    ]]);
    const ends = [points[0], points.at(-1), ...all.slice(points.length)];
    const tell = (point) => `${point.title}: certified ${written(point.x, "nearest", 4)}, clean ${written(point.y, "nearest", 4)}`;
    plot.svg.setAttribute("aria-label", `Brier scores on held-out inputs. ${ends.map(tell).join("; ")}. Arrow keys read values.`);
  });
}

/** Certified error of every map that was tried against one other score, the limit of that score, and the choice. */
function choicePlot(key, label) {
  const { radius, points, untouched, limits, best } = page.recalibration.choice;
  const known = [...points, { name: "no map", allowed: true, untouched: true, ...untouched }].filter((point) => point.certified_ece !== null && point[key] !== null);
  return makePlot(`choice-${key}`, (plot, width) => {
    if (!known.length) return emptyPlot(plot, width, "No input is certified at this radius.");
    const x = { ...fitted([...known.map((point) => point[key]), limits[key]]), label, text: axisText(false), count: 5 };
    const y = { ...fitted(known.map((point) => point.certified_ece)), label: `certified ECE at R = ${radius}`, text: axisText(true) };
    const area = axes(plot, { width, height: tall(320, 200), x, y, inset: 12, left: 56 });
    const at = (point) => [area.x(point[key]), area.y(point.certified_ece)];
    draw(area.grid, "line", { class: "diagonal", x1: area.x(limits[key]), x2: area.x(limits[key]), y1: area.top, y2: area.bottom });
    draw(area.marks, "path", { class: "neutral line", d: `M${best[key].map(([a, b]) => `${area.x(a)} ${area.y(b)}`).join("L")}` });
    for (const point of known) {
      if (point.untouched) marker(area.marks, "diamond", ...at(point), 4, "incorrect point");
      else marker(area.marks, "circle", ...at(point), point.chosen ? 6 : 3.2, point.allowed ? "correct point" : "neutral point");
    }
    legendEntry(plot, "allowed, the chosen one large", (svg) => marker(svg, "circle", 11, 6, 3.2, "correct"));
    legendEntry(plot, "beyond a limit", (svg) => marker(svg, "circle", 11, 6, 3.2, "neutral"));
    legendEntry(plot, "no map", (svg) => marker(svg, "diamond", 11, 6, 4, "incorrect"));
    inspectPoints(plot, area, known.map(at), (i) => [known[i].name + (known[i].chosen ? " (chosen)" : ""), [
      ["certified ECE", writtenShare(known[i].certified_ece, true)],
      ["AUROC", written(known[i].auroc)], ["clean Brier, all", written(known[i].brier_all, "nearest", 4)],
    ]], 7.5);
    const told = known.filter((point) => point.chosen || point.untouched).map((point) => `${point.name}: ${writtenShare(point.certified_ece, true)}, ${written(point[key])}`);
    plot.svg.setAttribute("aria-label", `Certified ECE against ${label} of ${points.length} maps. ${told.join("; ")}. Arrow keys read values.`);
  });
}

/** A range of values with some room, between round ticks. */
function fitted(values) {
  const low = Math.min(...values), high = Math.max(...values), step = roundStep(low, high > low ? high : low + 0.01, 4);
  return { from: Math.max(0, Math.floor(low / step) * step), to: (Math.floor(high / step) + 1) * step, step };
}

/** Names for the two ends of the curve and for the map that is kept; the others are read off. */
function labelEnds(area, points, at) {
  const ends = new Set([points[0], points.at(-1), ...points.filter((point) => point.chosen)]);
  for (const point of ends) {
    const [x, y] = at(point), late = x > area.right - 60;
    draw(area.marks, "text", { x: late ? x - 8 : x + 8, y: y - 7, "text-anchor": late ? "end" : "start" }, point.title);
  }
}

function mapPlot() {
  const { x, y, of } = page.recalibration.map;
  return makePlot("map", (plot, width) => {
    const axis = { from: 0, to: 1, text: axisText(false), step: 0.2 };
    const area = axes(plot, { width, height: tall(320, 200), x: { ...axis, label: `${of} before` }, y: { ...axis, label: "after" } });
    draw(area.grid, "line", { class: "diagonal", x1: area.x(0), y1: area.y(0), x2: area.x(1), y2: area.y(1) });
    draw(area.marks, "path", { class: "correct line", d: `M${x.map((value, i) => `${area.x(value)} ${area.y(y[i])}`).join("L")}` });
    legendEntry(plot, "the map", (svg) => draw(svg, "line", { class: "correct", x1: 0, x2: 22, y1: 6, y2: 6, "stroke-width": 2 }));
    legendEntry(plot, "no change", (svg) => draw(svg, "line", { class: "diagonal", x1: 0, x2: 22, y1: 6, y2: 6 }));
    inspectable(plot, area, {
      count: x.length,
      start: x.length - 1,
      nearest: (px) => Math.max(0, Math.min(x.length - 1, Math.round(((px - area.left) / (area.right - area.left)) * (x.length - 1)))),
      spot: (i) => [area.x(x[i]), area.y(y[i])],
      tell: (i) => [`${of} ${written(x[i])}`, [["becomes", written(y[i])]]],
      mark: (i, cursor) => draw(cursor, "circle", { class: "halo", cx: area.x(x[i]), cy: area.y(y[i]), r: 6.5 }),
    });
    const places = [0, 0.5, 0.9, 1].map((share) => Math.round(share * (x.length - 1)));
    const told = places.map((i) => `${written(x[i], "nearest", 2)} becomes ${written(y[i])}`).join(", ");
    plot.svg.setAttribute("aria-label", `The map of ${of}s: ${told}. Arrow keys read values.`);
  });
}

if (page.recalibration) {
  if (page.recalibration.choice) {
    choicePlot("auroc", "AUROC, all inputs");
    choicePlot("brier_all", "clean Brier score, all inputs");
  } else tradeOffPlot();
  mapPlot();
}

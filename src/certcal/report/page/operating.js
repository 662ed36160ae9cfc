// Accept from a threshold: a slider for τ beside the one for R, the sentence in words, and two curves.

// What is certified has the colour that it has above: accuracies that of right, errors that of wrong predictions.
const POINTS = (clean, certified) => [
  { key: "clean", text: "clean", look: clean },
  { key: "certified", text: "certified", look: certified },
  { key: "joint", text: "guaranteed", look: certified, dash: "6 4" },
];

function operatingHere() {
  const own = page.operating.views[chosen];
  return own.certified_accuracy ? own : null;
}

/** The position of the chosen threshold among those there are. */
function tauAt() {
  return Number(document.getElementById("threshold").value);
}

function tauText(at = tauAt()) {
  const tau = page.operating.thresholds[at], short = tau.toFixed(2);
  return Number(short) === tau ? short : String(tau);
}

function fillOperating() {
  const own = operatingHere(), at = tauAt(), tau = tauText(), host = document.getElementById("accept");
  document.getElementById("tau").textContent = tau;
  document.getElementById("threshold").setAttribute("aria-valuetext", `threshold ${tau}`);
  host.replaceChildren();
  const share = (key, way) => writtenShare(own[key][at], true, way, 3);
  if (!own) host.textContent = EMPTY;
  else if (own.joint_accuracy[at] === null) host.textContent = `Accept from ${tau}: no input can reach this threshold, so nothing is accepted.`;
  else if (own.certified_accuracy[at] === null) host.textContent = `Accept from ${tau}: no input can reach this threshold unless its certificate fails, so nothing is guaranteed of those accepted.`;
  else if (own.joint_accuracy[at] === 0 && own.joint_coverage[at] === 0) {
    const most = own.joint_coverage.findLastIndex((value, i) => i > 0 && (value > 0 || own.joint_accuracy[i] > 0));
    const some = most > 0 ? `Something is guaranteed up to a threshold of ${tauText(most)}.` : "Nor is it at any other threshold.";
    host.textContent = `Accept from ${tau}: whatever the attack within R = ${cell(chosen, "radius")}, nothing is guaranteed, neither how many are accepted nor how many of those are right. ${some}`;
  } else {
    const whose = page.population === "certified" ? "certified inputs" : "inputs";
    host.append(`Accept from ${tau}: whatever the attack within R = ${cell(chosen, "radius")}, at least `);
    make("strong", host, share("joint_accuracy", "down"));
    host.append(` of the accepted ${whose} are right, and at least `);
    make("strong", host, share("joint_coverage", "down"));
    const certified = `${share("certified_accuracy", "down")} and ${share("certified_coverage", "down")} if no certificate fails; `;
    const clean = `${share("clean_accuracy")} and ${share("clean_coverage")} without an attack`;
    host.append(` of the ${whose} are accepted${page.proven ? "" : `, with ${page.operating.confident} confidence`} (${page.proven ? "" : certified}${clean}).`);
    if (page.population === "certified") host.append(" Inputs that are not certified at this R are left out: evaluate with --population all to count them.");
  }
  fillWanted(own);
  const body = document.querySelector("#further tbody");
  body.replaceChildren();
  for (const [name, help, ...values] of page.operating.views[chosen].further) {
    const line = make("tr", body), head = make("th", line, name);
    head.scope = "row";
    make("span", head, help, "help");
    for (const value of values) make("td", line, value);
  }
}

/** The smallest of the thresholds from which those accepted have the wanted accuracy, whatever the attack. */
function fillWanted(own) {
  const share = Number(document.getElementById("wanted").value) / 100, button = document.getElementById("take"), host = document.getElementById("wanted-answer");
  const whose = page.population === "certified" ? "certified inputs" : "inputs";
  const helpful = own ? own.joint_accuracy.map((value, i) => (own.joint_coverage[i] > 0 ? value : 0)) : [0];
  const first = helpful.findIndex((value) => value > 0 && value >= share), best = Math.max(...helpful);
  button.hidden = first < 0 || first === tauAt();
  button.dataset.at = first;
  if (!(share > 0 && share <= 1)) host.textContent = "give a share above 0 and up to 100 %.";
  else if (first >= 0) host.textContent = `accept from ${tauText(first)}; at least ${writtenShare(own.joint_coverage[first], true, "down", 3)} of the ${whose} are then accepted, whatever the attack.`;
  else if (best > 0) host.textContent = `no threshold guarantees it here. The most is ${writtenShare(best, true, "down", 3)}, from ${tauText(helpful.indexOf(best))}.`;
  else host.textContent = "no threshold guarantees anything here.";
}

function operatingLine(plot, area, points, line) {
  const dash = line.dash ? { "stroke-dasharray": line.dash } : {};
  let path = "", pen = "M";
  for (const point of points) {
    if (point) path += `${pen}${area.x(point[0])} ${area.y(point[1])}`;
    pen = point ? "L" : "M";
  }
  draw(area.marks, "path", { class: `${line.look} line`, d: path, ...dash });
  const here = points[tauAt()];
  if (here) marker(area.marks, "circle", area.x(here[0]), area.y(here[1]), 4, `${line.look} point`);
  legendEntry(plot, line.text, (svg) => draw(svg, "line", { class: line.look, x1: 0, x2: 22, y1: 6, y2: 6, "stroke-width": 2, ...dash }));
}

function operatingPlot(name, looks, x, yLabel, pointsOf, range) {
  return makePlot(name, (plot, width) => {
    const own = operatingHere(), { thresholds } = page.operating;
    if (!own) return emptyPlot(plot, width);
    const lines = POINTS(...looks).map((line) => ({ line, points: pointsOf(own, line.key) }));
    const [from, to] = range(lines.flatMap(({ points }) => points.filter(Boolean).map((point) => point[1])));
    const y = { from, to, label: yLabel, text: axisText(true) };
    const area = axes(plot, { width, height: tall(290, 200), x: { from: 0, to: 1, text: axisText(x.percent), label: x.label }, y, inset: 6, left: 50, right: 20 });
    if (x.marked) draw(area.grid, "line", { class: "now", x1: area.x(thresholds[tauAt()]), x2: area.x(thresholds[tauAt()]), y1: area.top, y2: area.bottom });
    for (const { line, points } of lines) operatingLine(plot, area, points, line);
    const told = lines.map(({ line, points }) => `${line.text} ${points[tauAt()] ? writtenShare(points[tauAt()][1], true, "nearest", 3) : "none"}`);
    plot.svg.setAttribute("aria-label", `${yLabel} at threshold ${tauText()}: ${told.join(", ")}.`);
    inspectable(plot, area, {
      count: thresholds.length,
      start: tauAt(),
      nearest: (at) => nearestThreshold(lines, area, at),
      spot: (i) => [area.x(lines[0].points[i]?.[0] ?? thresholds[i]), (area.top + area.bottom) / 2],
      tell: (i) => [`τ = ${tauText(i)}`, lines.map(({ line, points }) => [line.text, points[i] ? writtenShare(points[i][1], true, "nearest", 3) : "—"])],
      mark: (i, cursor) => {
        for (const { points } of lines) if (points[i]) draw(cursor, "circle", { class: "halo", cx: area.x(points[i][0]), cy: area.y(points[i][1]), r: 6 });
      },
    });
  });
}

function nearestThreshold(lines, area, at) {
  const away = (i) => Math.min(...lines.map(({ points }) => (points[i] ? Math.abs(area.x(points[i][0]) - at) : Infinity)));
  return closest(page.operating.thresholds, away);
}

if (page.operating) {
  const known = (value) => value !== null && value !== undefined;
  const top = (values) => [0, Math.max(0.05, Math.ceil(Math.max(...values, 0) * 20) / 20)];
  const low = (values) => [Math.min(0.95, Math.floor(Math.min(...values, 1) * 20) / 20), 1];
  const plotsHere = [
    operatingPlot("accepted", ["neutral", "correct"], { label: "threshold τ", percent: false, marked: true }, "accuracy", (own, key) =>
      own[`${key}_accuracy`].map((value, i) => (known(value) ? [page.operating.thresholds[i], value] : null)), low),
    operatingPlot("coverage", ["neutral", "incorrect"], { label: "coverage", percent: true }, "risk", (own, key) =>
      own[`${key}_accuracy`].map((value, i) => (known(value) ? [own[`${key}_coverage`][i], 1 - value] : null)), top),
  ];
  followers.push(fillOperating);
  const tauSlider = document.getElementById("threshold"), takeButton = document.getElementById("take");
  const follow = () => {
    fillOperating();
    tauFollowers.forEach((own) => own());
    plotsHere.forEach((plot) => repaint(plot));
  };
  const moveTo = (at) => {
    tauSlider.value = at;
    if (at === page.operating.threshold) delete kept.tau;
    else kept.tau = page.operating.thresholds[at];
  };
  const move = (at) => {
    moveTo(at);
    writeAddress(addressNow());
    follow();
  };
  tauSlider.addEventListener("input", () => move(tauAt()));
  takeButton.addEventListener("click", () => move(Number(takeButton.dataset.at)));
  document.getElementById("wanted").addEventListener("input", () => fillWanted(operatingHere()));
  readers.push((asked) => {
    const at = asked.has("tau") ? page.operating.thresholds.findIndex((tau) => Math.abs(tau - Number(asked.get("tau"))) < 1e-9) : -1;
    moveTo(at < 0 ? page.operating.threshold : at);
    follow();
  });
}

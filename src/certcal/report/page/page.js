// The chosen radius: from the address, the slider, a row or a curve, to everything on the page.

const root = document.documentElement, slider = document.getElementById("radius");
const lines = [...document.querySelectorAll("#table tbody tr")];

function choose(row, { remember = true } = {}) {
  chosen = row;
  const at = order.indexOf(row);
  slider.value = at;
  slider.setAttribute("aria-valuetext", `R = ${cell(row, "radius")}`);
  document.getElementById("chosen").textContent = cell(row, "radius");
  document.getElementById("smaller").disabled = at === 0;
  document.getElementById("larger").disabled = at === order.length - 1;
  for (const node of document.querySelectorAll("[data-key]")) node.textContent = cell(row, node.dataset.key);
  for (const note of document.querySelectorAll(".note:has([data-key])")) note.hidden = note.querySelector("[data-key]").textContent === "—";
  lines.forEach((line, i) => (i === row ? line.setAttribute("aria-current", "true") : line.removeAttribute("aria-current")));
  fillVerdict(row);
  followers.forEach((follow) => follow(row));
  fillHeadline(page.views[row].sentence);
  fillExplanation(page.views[row].explanation);
  fillInputs();
  hintScrolling();
  hideTip();
  plots.forEach((plot) => repaint(plot));
  if (remember) writeAddress(addressNow());
}

/** The sentence, with the number that it is about in bold. */
function fillHeadline(sentence) {
  const host = document.getElementById("headline");
  const number = ["joint_ece", "certified_ece"].map((key) => cell(chosen, key)).find((text) => text && sentence.split(text).length === 2);
  const [before, after] = number ? sentence.split(number) : [sentence, ""];
  host.replaceChildren(before);
  if (number) make("strong", host, number);
  host.append(after);
}

function fillExplanation(text) {
  document.getElementById("explanation").textContent = text ?? "";
  document.getElementById("how").hidden = !text;
}

/** Mark the sides on which a table has more than is seen; its first column always is. */
function hintScrolling() {
  for (const room of document.querySelectorAll(".scroll")) {
    const { scrollLeft, scrollWidth, clientWidth } = room, frame = room.parentElement;
    frame.classList.toggle("more-left", scrollLeft > 1);
    frame.classList.toggle("more-right", scrollLeft + clientWidth < scrollWidth - 1);
    frame.style.setProperty("--kept", `${room.querySelector("th")?.offsetWidth ?? 0}px`);
  }
}

function setUpScrolling() {
  for (const room of document.querySelectorAll(".scroll")) {
    room.addEventListener("scroll", hintScrolling, { passive: true });
    new ResizeObserver(hintScrolling).observe(room);
  }
}

/** The radius, and what else was chosen. */
function addressNow() {
  return `#${Object.entries({ R: page.rows[chosen].radius, ...kept }).map(([name, value]) => `${name}=${value}`).join("&")}`;
}

function writeAddress(hash) {
  try {
    history.replaceState(null, "", hash);
  } catch {
    // Shown inside another page: the choice works, only the address does not keep it.
  }
}

/** Show what the address asks for. */
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  const row = asked.has("R") ? page.rows.findIndex((row) => Math.abs(row.radius - Number(asked.get("R") || NaN)) < 1e-9) : -1;
  choose(row < 0 ? page.default_view : row, { remember: false });
  readers.forEach((read) => read(asked));
}

function setUpTheme() {
  const button = document.getElementById("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  dark.addEventListener("change", name);
  name();
}

function setUpChoice() {
  const step = (way) => choose(order[Math.max(0, Math.min(order.length - 1, order.indexOf(chosen) + way))]);
  document.getElementById("chooser").hidden = lines.length === 1;
  slider.addEventListener("input", () => choose(order[slider.value]));
  document.getElementById("smaller").addEventListener("click", () => step(-1));
  document.getElementById("larger").addEventListener("click", () => step(1));
  lines.forEach((line, i) => line.addEventListener("click", (event) => {
    event.preventDefault();
    choose(i);
  }));
  addEventListener("hashchange", readAddress);
}

/** On paper a plot is as wide as its column there, not as on the screen. */
function setUpPaper() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("#how:not([open])")];
    for (const part of opened) part.open = true;
    onPaper = true;
    for (const plot of plots) repaint(plot, plot.host.closest(".wide") ? 700 : 340);
  });
  addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
    onPaper = false;
    plots.forEach((plot) => repaint(plot));
  });
}

for (const node of document.querySelectorAll(".needs-script")) node.hidden = false;
if (lines.length > 1) {
  curvePlot("ece", "ECE", true);
  curvePlot("brier", "Brier score", false);
  curvePlot("accuracy", "share of all inputs", false);
}
reliabilityPlot("clean", "correct");
reliabilityPlot("worst", "incorrect");
boxesPlot();
widthsPlot();
movesPlot();
setUpTheme();
setUpChoice();
setUpPaper();
setUpScrolling();
readAddress();
let room = 0;
new ResizeObserver(([{ contentRect }]) => {
  if (contentRect.width !== room) plots.forEach((plot) => repaint(plot));
  room = contentRect.width;
}).observe(document.querySelector("main"));

// The inputs that contribute most to the worst case, as a table with a small picture of each certificate.

const pictureOf = (input) => page.images?.[input.index];
const INPUT_COLUMNS = [
  ["input", (input) => String(input.index)],
  ...(page.images ? [["picture", thumbnail, "picture"]] : []),
  ["label", (input) => String(input.label), "text"],
  ["predicted", (input) => String(input.predicted), "text"],
  ["clean confidence", (input) => written(input.confidence)],
  ["certified between", (input) => `${written(input.lower, "down")} – ${written(input.upper, "up")}`],
  ["from 0 to 1", rangePicture, "picture"],
  ["worst case", (input) => written(input.worst)],
  ["adds to certified ECE", (input) => addedShare(input.share)],
  ["certified radius", (input) => written(input.certified_radius, "down")],
];

/** A share of the error with two digits that count, in the unit of the table's certified ECE. */
function addedShare(share) {
  if (!(share > 0)) return writtenShare(share, inPercent("certified_ece"), "up");
  const digits = Math.max(3, Math.ceil(-Math.log10(share)) + 1);
  return writtenShare(share, inPercent("certified_ece"), "up", digits);
}

function thumbnail(input, host) {
  const found = pictureOf(input);
  if (!found) return;
  Object.assign(make("img", host, undefined, "thumbnail"), { src: found.src, alt: found.file || `input ${input.index}`, title: found.file });
  if (found.file) make("span", host, found.file, "file");
}

function rangePicture(input, host) {
  const svg = draw(host, "svg", { class: "range", viewBox: "0 0 120 14", "aria-hidden": "true", preserveAspectRatio: "none" });
  const at = linear(0, 1, 1, 119), look = input.correct ? "correct fade" : "incorrect";
  draw(svg, "line", { class: "grid", x1: 1, x2: 119, y1: 7, y2: 7, "stroke-width": 1 });
  draw(svg, "rect", { class: look, x: at(input.lower), width: Math.max(1, at(input.upper) - at(input.lower)), y: 3, height: 8 });
  draw(svg, "line", { class: "tick", x1: at(input.worst), x2: at(input.worst), y1: 0, y2: 14 });
}

function fillInputs() {
  const table = document.getElementById("top"), { top } = page.views[chosen];
  table.replaceChildren();
  table.classList.toggle("long", (top ?? []).some(({ label, predicted }) => `${label}${predicted}`.length > 16));
  const head = make("tr", make("thead", table)), body = make("tbody", table);
  for (const [name, , kind] of INPUT_COLUMNS) {
    const cell = make("th", head, name);
    cell.scope = "col";
    if (kind) cell.className = kind;
  }
  if (!top?.length) make("td", make("tr", body), EMPTY, "none").colSpan = INPUT_COLUMNS.length;
  for (const input of top ?? []) fillInput(make("tr", body), input);
}

function fillInput(line, input) {
  INPUT_COLUMNS.forEach(([name, value, kind], i) => {
    const cell = make(i === 0 ? "th" : "td", line);
    if (i === 0) cell.scope = "row";
    if (kind) cell.className = kind;
    if (name === "predicted" && !input.correct) cell.classList.add("wrong");
    const text = value(input, cell);
    if (typeof text === "string") cell.textContent = text;
  });
}

// The answer at the chosen radius: the short line, and a bar from the clean error over the attacked to the guaranteed one.

const BARS = [
  ["guaranteed", "incorrect tint", "up", (row) => page.rows[row].joint_ece],
  ["attacked", "attacked", "nearest", (row) => attackedAt(row)?.attacked_ece],
  ["without an attack", "correct", "nearest", (row) => page.rows[row].ece],
];

/** What the strongest attack at just that radius attained; nothing where there was none. */
function attackedAt(row) {
  return page.attack?.sandwich?.curves.find((one) => one.radius === page.rows[row].radius);
}

/** On how many inputs an attack was tried, where they are not all that the other values are about. */
function ofSome(name, row) {
  const some = name === "attacked" ? attackedAt(row).inputs : null;
  return some === null || some === page.rows[row].inputs ? "" : ` (${some} input${some === 1 ? "" : "s"} tried)`;
}

function fillVerdict(row) {
  const { answer, about } = page.views[row], host = document.getElementById("bar");
  document.body.classList.toggle("nothing", !page.views[row].worst);
  document.getElementById("answer").textContent = answer;
  document.getElementById("about").textContent = about;
  const known = BARS.map(([name, look, way, of]) => [name, look, way, of(row) ?? null]).filter((bar) => bar[3] !== null);
  host.replaceChildren();
  host.hidden = !known.length;
  const svg = draw(host, "svg", { viewBox: "0 0 1000 20", preserveAspectRatio: "none", "aria-hidden": "true" });
  draw(svg, "rect", { class: "track", x: 0, width: 1000, y: 0, height: 20 });
  for (const [, look, , value] of known) draw(svg, "rect", { class: look, x: 0, width: Math.max(2, 1000 * value), y: 0, height: 20 });
  const legend = make("ul", host, undefined, "legend");
  for (const [name, look, way, value] of known.reverse()) {
    const item = make("li", legend);
    draw(draw(item, "svg", { "aria-hidden": "true" }), "rect", { class: look, x: 3, y: 0, width: 16, height: 12 });
    item.append(`${name} ${way === "up" ? "≤ " : ""}${writtenShare(value, true, way, 4)}${ofSome(name, row)}`);
  }
  make("li", legend, "of 100 %", "whole");
}

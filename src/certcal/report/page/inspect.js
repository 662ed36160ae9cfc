// Reading values off a plot: by pointer, by touch, or with the arrow keys once the plot has the focus.

const tip = document.getElementById("tip");
const spoken = document.getElementById("spoken");

/** Show a title and pairs of name and value near a place on the screen. */
function showTip(title, pairs, x, y) {
  tip.replaceChildren();
  make("p", tip, title);
  if (pairs.length) {
    const list = make("dl", tip);
    for (const [name, value] of pairs) {
      make("dt", list, name);
      make("dd", list, value);
    }
  }
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect(), room = document.documentElement;
  const beside = x + 16 + width > room.clientWidth - 8 ? x - 16 - width : x + 16;
  const below = y + 16 + height > room.clientHeight - 8 ? y - 12 - height : y + 16;
  tip.style.left = `${Math.max(8, Math.min(beside, room.clientWidth - width - 8))}px`;
  tip.style.top = `${Math.max(8, below)}px`;
}

function hideTip() {
  tip.hidden = true;
  for (const plot of plots) plot.inspected?.area.cursor.replaceChildren();
}

/**
 * Make a painted plot readable: `count` items, `nearest(x, y)` finds one, `spot(i)` says where it is, `tell(i)` gives
 * [title, pairs], `mark(i, cursor)` draws around it; `choose(i)`, if given, is what a click or Enter does.
 */
function inspectable(plot, area, item) {
  plot.inspected = { area, at: item.start ?? 0, ...item };
  plot.host.classList.toggle("choosable", Boolean(item.choose));
}

function closest(items, distance) {
  return items.reduce((best, _, i) => (distance(i) < distance(best) ? i : best), 0);
}

/** Make points readable: `spots` are where they are, the nearest one is told and gets a ring of that size. */
function inspectPoints(plot, area, spots, tell, r = 6.5) {
  inspectable(plot, area, {
    count: spots.length,
    nearest: (x, y) => closest(spots, (i) => Math.hypot(spots[i][0] - x, spots[i][1] - y)),
    spot: (i) => spots[i],
    tell,
    mark: (i, cursor) => draw(cursor, "circle", { class: "halo", cx: spots[i][0], cy: spots[i][1], r }),
  });
}

function look(plot, i, x, y) {
  const item = plot.inspected;
  hideTip();
  item.at = i;
  item.mark?.(i, item.area.cursor);
  const [title, pairs] = item.tell(i);
  showTip(title, pairs, x, y);
  return [title, ...pairs.map((pair) => pair.join(" "))].join(", ");
}

function listen(plot) {
  const { svg } = plot;
  const ready = () => plot.inspected && plot.inspected.count > 0;
  const scale = () => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const under = (event) => {
    const box = svg.getBoundingClientRect();
    return plot.inspected.nearest((event.clientX - box.left) / scale(), (event.clientY - box.top) / scale());
  };
  const point = (event) => ready() && look(plot, under(event), event.clientX, event.clientY);
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && hideTip());
  svg.addEventListener("click", (event) => ready() && plot.inspected.choose?.(under(event)));
  const lookAtSpot = (i) => {
    const [x, y] = plot.inspected.spot(i), box = svg.getBoundingClientRect();
    spoken.textContent = look(plot, i, box.left + x * scale(), box.top + y * scale());
  };
  svg.addEventListener("focus", () => ready() && svg.matches(":focus-visible") && lookAtSpot(plot.inspected.at));
  svg.addEventListener("blur", hideTip);
  svg.addEventListener("keydown", (event) => {
    if (!ready() || event.ctrlKey || event.metaKey || event.altKey) return;
    const { at, count, choose } = plot.inspected;
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: count - 1 }[event.key];
    if (event.key === "Escape") hideTip();
    else if ((event.key === "Enter" || event.key === " ") && choose) choose(at);
    else if (next !== undefined) lookAtSpot(Math.max(0, Math.min(count - 1, next)));
    else return;
    event.preventDefault();
  });
}

document.addEventListener("pointerdown", (event) => event.target.closest(".plot, [data-help]") || hideTip());
addEventListener("scroll", () => tip.hidden || document.activeElement?.matches(":focus-visible") || hideTip(), { passive: true });

for (const head of document.querySelectorAll("[data-help]")) {
  const explain = () => {
    const box = head.getBoundingClientRect();
    showTip(head.dataset.help, [], box.left, box.bottom - 8);
  };
  head.addEventListener("pointerenter", explain);
  head.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && hideTip());
}

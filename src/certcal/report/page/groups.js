// The groups at the chosen radius and threshold: a heat map in numbers.

function fillGroups() {
  const tables = [...document.querySelectorAll("#groups table")], lists = [...document.querySelectorAll("#groups .disparities")];
  page.groups.views[chosen].forEach(({ rows, notes, curves }, n) => {
    const moving = curves && page.operating ? acceptedOf(curves) : {};
    rows.forEach(({ cells, shades }, line) => {
      cells.forEach((text, i) => {
        const node = tables[n].tBodies[0].rows[line].cells[i + 1], own = moving[i]?.[line];
        const shade = own ? own.shade : shades[i];
        node.textContent = own ? own.text : text;
        node.removeAttribute("class");
        if (shade) node.className = `shade-${Math.min(5, Math.ceil(shade * 5))}`;
      });
    });
    lists[n].replaceChildren();
    for (const note of notes) make("li", lists[n], note);
  });
  if (page.groups.places && page.operating) document.getElementById("groups-tau").textContent = tauText();
}

/** By place of their column, coverage and accuracy of those accepted from the chosen threshold, in each group. */
function acceptedOf(curves) {
  return Object.fromEntries(page.groups.places.map((place, which) => {
    const tenths = curves.map((own) => valueAt(own?.[which] ?? [], tauAt())), known = tenths.filter((value) => value !== null);
    const best = Math.max(...known), room = Math.max(best - Math.min(...known), 100);
    const shown = (value) => ({ text: value === null ? "—" : `${(value / 10).toFixed(1)} %`, shade: value === null ? 0 : value === 0 ? 1 : (best - value) / room });
    return [place, tenths.map(shown)];
  }));
}

/** The value at a position, where equal neighbours are told once with their number. */
function valueAt(runs, position) {
  let end = 0;
  return runs.find(([, count]) => (end += count) > position)?.[0] ?? null;
}

if (page.groups) {
  followers.push(fillGroups);
  tauFollowers.push(fillGroups);
}

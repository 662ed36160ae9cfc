// The groups at the chosen radius: a heat map in numbers.

function fillGroups(row) {
  const host = document.getElementById("groups");
  host.replaceChildren();
  for (const { column, rows, disparities, notes } of page.groups.views[row]) {
    make("h3", host, `By ${column}`);
    const room = make("div", make("div", host, undefined, "reach"), undefined, "scroll");
    Object.entries({ tabindex: 0, role: "region", "aria-label": `Groups by ${column}` }).forEach(([name, value]) => room.setAttribute(name, value));
    const table = make("table", room), head = make("tr", make("thead", table)), body = make("tbody", table);
    for (const title of ["group", ...page.groups.columns]) make("th", head, title).scope = "col";
    for (const { name, cells, shades } of rows) {
      const line = make("tr", body);
      make("th", line, name).scope = "row";
      cells.forEach((text, i) => {
        const node = make("td", line, text);
        if (shades[i]) node.className = `shade-${Math.min(5, Math.ceil(shades[i] * 5))}`;
      });
    }
    const list = make("ul", host, undefined, "disparities");
    for (const own of disparities) make("li", list, `Largest difference in ${own}.`);
    for (const note of notes) make("li", list, note);
  }
}

if (page.groups) followers.push(fillGroups);

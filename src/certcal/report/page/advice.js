// What makes up the guaranteed error at the chosen radius, and what would lower it.

function fillAdvice(row) {
  const { why, next, command, rows } = page.advice.views[row], body = document.querySelector("#advice tbody");
  for (const [id, text] of [["cause", why], ["next", next], ["command", command]]) document.getElementById(id).textContent = text;
  body.replaceChildren();
  for (const { cause, why, points, action, command, gain } of rows) {
    const line = make("tr", body), head = make("th", line, `${cause} `);
    head.scope = "row";
    make("span", head, why, "why");
    make("td", line, points);
    const step = make("td", line, action, "text");
    if (command) {
      step.append(" ");
      make("code", step, command);
    }
    make("td", line, gain);
  }
}

if (page.advice) followers.push(fillAdvice);

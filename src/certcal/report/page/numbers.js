"use strict";
// The page's data, and how its numbers are written. A certified number is never rounded to the flattering side: the
// strings in `cells` are rounded by Python, and what is only shown here goes through `written` with its direction.

const page = JSON.parse(document.getElementById("data").textContent);
const place = Object.fromEntries(page.columns.map((column, i) => [column.key, i]));
const order = page.rows.map((_, i) => i).sort((i, j) => page.rows[i].radius - page.rows[j].radius); // rows by radius
const followers = []; // functions of the chosen row, called whenever another one is chosen
const readers = []; // functions of what the address asks for, called when the page opens and when the address changes
const kept = {}; // what the address keeps beside the radius, by name
const tauFollowers = []; // functions that are called whenever another threshold is chosen
let chosen = page.default_view; // the row everything below the table is about

function cell(row, key) {
  if (key in place) return page.cells[row][place[key]];
  return key === "radius" ? radiusText(page.rows[row].radius) : "";
}

function label(key) {
  return key in place ? page.columns[place[key]].label : key.replaceAll("_", " ");
}

/** A radius with every digit, or as 8/255 where it is so many steps of a byte. */
function radiusText(radius) {
  const steps = Math.round(radius * 255);
  return steps > 0 && steps <= 64 && steps / 255 === radius && String(radius).length > 8 ? `${steps}/255` : String(radius);
}

/** A number with that many decimals; `way` is "up", "down" or "nearest". */
function written(value, way = "nearest", digits = 3) {
  if (value === null || value === undefined) return "—";
  const near = value.toFixed(digits);
  const step = way === "up" && Number(near) < value ? 1 : way === "down" && Number(near) > value ? -1 : 0;
  return step ? (Number(near) + step * 10 ** -digits).toFixed(digits) : near;
}

/** Whether the table shows a column in percent: plots and hints then do the same. */
function inPercent(key) {
  return key in place && page.cells.some((cells) => cells[place[key]].includes("%"));
}

/** A share of one, in percent or as it is. */
function writtenShare(value, percent, way = "nearest", digits = 3) {
  if (value === null || value === undefined) return "—";
  const text = written(value, way, digits);
  return percent ? `${(Number(text) * 100).toFixed(Math.max(0, digits - 2))} %` : text;
}

function axisText(percent) {
  return (value, step) => {
    const shown = percent ? value * 100 : value;
    const digits = Math.max(0, -Math.floor(Math.log10(percent ? step * 100 : step) + 1e-9));
    return shown.toFixed(digits) + (percent ? " %" : "");
  };
}

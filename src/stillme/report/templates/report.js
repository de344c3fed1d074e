// Sorting and opening; everything is readable without it.
"use strict";
document.documentElement.classList.add("js");

function compare(a, b) {
  const x = Number(a), y = Number(b);
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en") : x - y;
}

function sort(heading) {
  const table = heading.closest("table"), body = table.tBodies[0], column = heading.cellIndex;
  const down = heading.getAttribute("aria-sort") === "ascending";
  const key = (row) => row.cells[column].dataset.sort;
  const rows = Array.from(body.rows);
  const known = rows.filter((row) => key(row) !== undefined).sort((a, b) => compare(key(a), key(b)));
  if (down) known.reverse();
  // A missing value is neither small nor large: it stays last in both directions.
  body.append(...known, ...rows.filter((row) => key(row) === undefined));
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
}

for (const button of document.querySelectorAll(".sort")) {
  button.addEventListener("click", () => sort(button.closest("th")));
}

for (const button of document.querySelectorAll(".open-all")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-pressed") !== "true";
    for (const fold of button.closest("section").querySelectorAll("details")) fold.open = open;
    button.setAttribute("aria-pressed", String(open));
    button.textContent = open ? "Close all" : "Open all";
  });
}

// The contents: one heading is open at a time, and none after a choice, a click elsewhere, or Escape.
const headings = Array.from(document.querySelectorAll("nav details"));
function close(but) { for (const one of headings) if (one !== but) one.open = false; }
for (const one of headings) one.addEventListener("toggle", () => { if (one.open) close(one); });
document.addEventListener("click", (event) => {
  const own = event.target.closest("nav details");
  if (!own || event.target.closest("a")) close();
});
document.addEventListener("keydown", (event) => {
  const open = headings.find((one) => one.open);
  if (event.key === "Escape" && open) { open.open = false; open.querySelector("summary").focus(); }
});

function reveal() {
  const target = document.getElementById(location.hash.slice(1));  // ids are plain words, which nobody encodes
  const fold = target && target.closest("details");
  if (fold) { fold.open = true; target.scrollIntoView(); }
}
window.addEventListener("hashchange", reveal);
reveal();

window.addEventListener("beforeprint", () => {
  for (const image of document.querySelectorAll("img[loading]")) image.loading = "eager";
});

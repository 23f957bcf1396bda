"use strict";

/* Sorting: a click on a column's button sorts the rows, a second click reverses them. */
const { compare } = new Intl.Collator("da", { numeric: true, sensitivity: "base" });

for (const head of document.querySelectorAll("table.sortable th[aria-sort]")) {
  head.firstChild.addEventListener("click", () => {
    const order = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
    for (const other of head.parentNode.cells) {
      other.setAttribute("aria-sort", "none");
    }
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const body = head.closest("table").tBodies[0];
    const text = (row) => row.cells[head.cellIndex].textContent.trim();
    const byValue = (a, b) => a - b || compare(a, b);
    body.append(...[...body.rows].sort((a, b) => sign * byValue(text(a), text(b))));
  });
}

/* Filtering: all controls of a target together decide which of its rows are shown. */
function applyFilters(target) {
  const controls = [...document.querySelectorAll("[data-filter]")].filter(
    (control) => control.dataset.filter === target && control.value !== "",
  );
  const area = document.querySelector(target);
  const rows = [...area.querySelectorAll("tbody tr")];
  for (const row of rows) {
    row.hidden = !controls.every((control) =>
      control.dataset.key
        ? row.dataset[control.dataset.key] === control.value
        : row.textContent.toLowerCase().includes(control.value.toLowerCase()),
    );
  }
  if (area.dataset.count) {
    const shown = rows.filter((row) => !row.hidden).length;
    document.querySelector(area.dataset.count).textContent = controls.length ? `${shown} shown` : "";
  }
}

for (const control of document.querySelectorAll("[data-filter]")) {
  control.addEventListener("input", () => applyFilters(control.dataset.filter));
}

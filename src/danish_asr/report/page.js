"use strict";

/* Sorting: a click on a column's button orders the rows, a second click turns the order round. */
const collator = new Intl.Collator("da", { numeric: true, sensitivity: "base" });

function cellValue(row, column) {
  const cell = row.cells[column];
  return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
}

function compare(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b);
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => sign * compare(cellValue(a, column), cellValue(b, column)));
      table.tBodies[0].append(...rows);
    });
  });
}

/* Filtering: all controls of a target together decide which of its rows are shown. */
function applyFilters(target) {
  const controls = [...document.querySelectorAll("[data-filter]")].filter(
    (control) => control.dataset.filter === target && control.value !== "",
  );
  const area = document.querySelector(target);
  let shown = 0;
  for (const row of area.querySelectorAll("tbody tr")) {
    const matches = controls.every((control) =>
      control.dataset.key
        ? row.dataset[control.dataset.key] === control.value
        : row.textContent.toLowerCase().includes(control.value.toLowerCase()),
    );
    row.hidden = !matches;
    shown += matches ? 1 : 0;
  }
  if (area.dataset.count) {
    document.querySelector(area.dataset.count).textContent =
      controls.length === 0 ? "" : `${shown} shown`;
  }
}

for (const control of document.querySelectorAll("[data-filter]")) {
  control.addEventListener("input", () => applyFilters(control.dataset.filter));
}

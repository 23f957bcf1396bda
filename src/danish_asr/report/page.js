"use strict";

/* Sorting: a click on a column's button sorts the rows, a second click reverses them. */
const collator = new Intl.Collator("da", { numeric: true, sensitivity: "base" });

function compare(a, b) {
  return Number(a) - Number(b) || collator.compare(a, b);
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const text = (row) => row.cells[column].textContent.trim();
      const rows = [...table.tBodies[0].rows].sort((a, b) => sign * compare(text(a), text(b)));
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

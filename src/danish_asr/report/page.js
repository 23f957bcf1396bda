"use strict";

const { compare } = new Intl.Collator("da", { numeric: true, sensitivity: "base" });
const all = (selector) => [...document.querySelectorAll(selector)];

/* Groups without an interval (pale) stay last. */
function sort(table, column, order) {
  for (const head of table.tHead.rows[0].querySelectorAll("[aria-sort]")) {
    head.setAttribute("aria-sort", head.cellIndex === column ? order : "none");
  }
  const rows = [...table.tBodies[0].rows].map((row) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim();
    return { row, text, number: Number(text.replaceAll(",", "")), pale: row.className === "pale" };
  });
  const sign = order === "ascending" ? 1 : -1;
  rows.sort((a, b) => a.pale - b.pale || sign * (a.number - b.number || compare(a.text, b.text)));
  table.tBodies[0].append(...rows.map(({ row }) => row));
  update(table);
}

/* The first click sorts texts from A to Z and numbers from the largest; the next one reverses. */
for (const button of all("thead button")) {
  button.addEventListener("click", () => {
    const [head, table] = [button.closest("th"), button.closest("table")];
    const cells = [...table.tBodies[0].rows].map((row) => row.cells[head.cellIndex]);
    const numbers = cells.every((cell) => !("value" in cell.dataset || isNaN(cell.textContent.replaceAll(",", ""))));
    const orders = numbers ? ["descending", "ascending"] : ["ascending", "descending"];
    sort(table, head.cellIndex, orders[Number(head.getAttribute("aria-sort") === orders[0])]);
  });
}

function matches(row, { type, value, dataset }) {
  if (type === "search") return row.textContent.toLowerCase().includes(value.toLowerCase());
  return dataset.key ? row.dataset[dataset.key] === value : value in row.dataset;
}

/* All controls of a table together decide which rows are shown; a long table is folded. A search
   covers both rankings, and what is folded. */
function update(table) {
  let controls = all("[data-filter]").filter((c) => c.value && table.closest(c.dataset.filter));
  const searching = controls.some(({ type }) => type === "search");
  if (searching) controls = controls.filter(({ id }) => id !== "rank");
  const shown = [...table.tBodies[0].rows].filter((row) => {
    row.hidden = !controls.every((control) => matches(row, control));
    return !row.hidden;
  });
  const most = Number(table.dataset.fold);
  const more = table.more;
  more.hidden = shown.length <= most || searching;
  const folded = !more.hidden && more.ariaExpanded === "false";
  more.textContent = folded ? `Show all ${shown.length}` : `Show ${most}`;
  shown.forEach((row, place) => row.classList.toggle("folded", folded && place >= most));
  if (table.dataset.count) {
    const chosen = controls.some(({ id }) => id !== "rank");
    document.querySelector(table.dataset.count).textContent = chosen ? `${shown.length} found` : "";
  }
}

for (const table of all("table[data-fold]")) {
  table.more = document.createElement("button");
  table.more.type = "button";
  table.more.className = "more";
  table.more.ariaExpanded = "false";
  table.more.addEventListener("click", () => {
    table.more.ariaExpanded = String(table.more.ariaExpanded === "false");
    update(table);
  });
  (table.closest(".scroll") ?? table).after(table.more);
  update(table);
}

for (const control of all("[data-filter]")) {
  control.addEventListener("input", () => {
    all("table[data-fold]").filter((table) => table.closest(control.dataset.filter)).forEach(update);
  });
}

/* The columns of both rankings come first, in the order of the options. */
const rank = document.querySelector("#rank");
rank?.addEventListener("input", () => {
  sort(document.querySelector("#worst-table"), rank.selectedIndex, "descending");
});

/* Paper shows what is folded. */
let opened = [];
window.addEventListener("beforeprint", () => {
  opened = all("details:not([open])");
  opened.forEach((part) => (part.open = true));
});
window.addEventListener("afterprint", () => opened.forEach((part) => (part.open = false)));

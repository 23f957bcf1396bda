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
}

/* The height of the beginning of a section that ends with a row or a card, not with a title. */
function whole(section, most) {
  const bottom = (one) => one.getBoundingClientRect().bottom;
  const { top } = section.getBoundingClientRect();
  const heights = [...section.querySelectorAll("tbody tr, li, .card")]
    .filter((one) => bottom(one) <= bottom(one.closest(".scroll") ?? section))
    .map((one) => bottom(one) - top);
  return Math.max(...heights.filter((height) => height <= most), 0) || most;
}

/* On a phone the sections of a page have 5,000 pixels in all, until their buttons are pressed. */
if (matchMedia("(max-width: 40rem)").matches) {
  const sections = all("main > section[id]");
  const most = 5000 / sections.length;
  for (const section of sections.filter((one) => one.scrollHeight > most)) {
    const button = document.createElement("button");
    button.textContent = "Show all";
    button.className = "more";
    section.className = "cut";
    section.style.maxHeight = `${whole(section, most)}px`;
    section.after(button);
    button.addEventListener("click", () => {
      section.style.maxHeight = "none";
      button.remove();
    });
  }
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

// Lets a reader sort a table by a column, and filter its rows.
"use strict";

(() => {
  const number = (text) => parseFloat(text.replace(/,/g, ""));

  // Compares numbers as numbers, and puts them before words.
  function compare(a, b) {
    const [x, y] = [number(a), number(b)];
    const [left, right] = [Number.isNaN(x), Number.isNaN(y)];
    if (left || right) return left - right || a.localeCompare(b);
    return x - y || a.localeCompare(b);
  }

  function sortable(head, body, at) {
    if (![...body.rows].some((row) => row.cells[at].textContent)) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const each of head.parentElement.children) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keyed = [...body.rows].map((row) => [row.cells[at].textContent, row]);
      const last = ([text]) => text === "";
      keyed.sort((a, b) => last(a) - last(b) // empty cells are last both ways
        || (down ? -1 : 1) * compare(a[0], b[0]));
      body.append(...keyed.map(([, row]) => row));
    });
  }

  function filterable(scroll, body, caption) {
    const label = document.createElement("label");
    const field = document.createElement("input");
    const told = document.createElement("output");
    field.type = "search";
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      told.textContent = words.length ? `${shown} of ${body.rows.length} rows` : "";
    });
    field.setAttribute("aria-label", `Rows with these words: ${caption}`);
    label.className = "filter";
    label.append("Rows with ", field, " ", told);
    scroll.before(label);
  }

  for (const scroll of document.querySelectorAll("[data-sortable]")) {
    const body = scroll.querySelector("tbody");
    if (body.rows.length < 2) continue;
    [...scroll.querySelectorAll("thead th")].forEach((head, at) => sortable(head, body, at));
    filterable(scroll, body, scroll.querySelector("caption").textContent);
  }
})();

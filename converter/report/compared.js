"use strict";
// Sorting and filtering of the table of artifacts; without this file, the table is whole.
(() => {
  const table = document.getElementById("rows");
  const form = document.getElementById("filter");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells].filter((cell) => cell.dataset.column);
  const sorts = form.elements.sort;
  const number = (row, column) => parseFloat(row.cells[column].dataset.value);

  const sort = () => {
    const [column, order] = sorts.value.split(" ");
    for (const head of heads) {
      if (head.dataset.column === column) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    }
    const sign = order === "descending" ? -1 : 1;
    const placed = !column ? rows : [...rows].sort((a, b) => {
      const [left, right] = [number(a, column), number(b, column)];
      if (isNaN(left) || isNaN(right)) return isNaN(left) - isNaN(right);
      return sign * (left - right);
    });
    body.append(...placed);
  };

  const filter = () => {
    const text = form.elements.text.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const fits = ["target", "precision", "verdict"].every((name) => {
        const wanted = form.elements[name] ? form.elements[name].value : "";
        return !wanted || row.dataset[name] === wanted;
      });
      row.hidden = !(fits && row.textContent.toLowerCase().includes(text) &&
        (!form.elements.front.checked || "front" in row.dataset));
      shown += !row.hidden;
    }
    form.elements.count.value = `${shown} of ${rows.length} shown`;
  };

  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => {
      const first = head.dataset.first;
      const other = first === "ascending" ? "descending" : "ascending";
      sorts.value = `${head.dataset.column} ${head.getAttribute("aria-sort") === first ? other : first}`;
      sort();
    });
    head.replaceChildren(button);
  }
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  sorts.addEventListener("change", sort);
  filter();

  const open = () => {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (place && place.tagName === "DETAILS") place.open = true;
    if (place && place.hidden) { form.reset(); filter(); sort(); place.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
  open();
})();

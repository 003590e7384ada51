// Shows one group of runs, and of these the rows and points that the filters leave; sorts tables by a column. Without
// scripts all groups are shown, as they are.
const chooser = document.getElementById("group");
const name = document.getElementById("name");
const reproducible = document.getElementById("reproducible");

function show() {
  const wanted = name.value.trim().toLowerCase();
  for (const section of document.querySelectorAll("section.group")) {
    section.hidden = section.id !== chooser.value;
    const rows = [...section.querySelectorAll("tbody tr")];
    for (const row of rows) {
      const isNamed = row.dataset.name.toLowerCase().includes(wanted);
      row.hidden = !isNamed || (reproducible.checked && row.classList.contains("faults"));
      section.querySelector(`g[data-run="${row.dataset.run}"]`)?.toggleAttribute("hidden", row.hidden);
    }
    const hidden = rows.filter((row) => row.hidden).length;
    section.querySelector(".hidden-rows").textContent = hidden ? `${hidden} of ${rows.length} runs are hidden by the filters.` : "";
  }
}

// Rows that cannot be measured again stay last, and before them those without a value.
function sort(head) {
  const descending = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = head.closest("table").tBodies[0];
  const value = (row) => row.cells[head.cellIndex].dataset.value;
  const isText = head.cellIndex === 0;
  const order = (a, b) => {
    const faults = a.classList.contains("faults") - b.classList.contains("faults");
    const missing = (value(a) === undefined) - (value(b) === undefined);
    if (faults || missing) return faults || missing;
    const later = value(a) === undefined ? 0 : isText ? value(a).localeCompare(value(b)) : value(a) - value(b);
    return (descending ? -later : later) || a.dataset.run - b.dataset.run;
  };
  body.append(...[...body.rows].sort(order));
}

for (const head of document.querySelectorAll("th[data-sorts]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "sort";
  button.append(...head.childNodes);
  button.addEventListener("click", () => sort(head));
  head.append(button);
}

if (chooser !== null) {
  document.getElementById("filters").hidden = false;
  for (const control of [chooser, name, reproducible]) control.addEventListener("input", show);
  show();
}

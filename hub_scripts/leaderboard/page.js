// Shows one group of runs, and of these the rows that the filters leave. Without scripts all groups are shown.
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
    }
    const hidden = rows.filter((row) => row.hidden).length;
    section.querySelector(".hidden-rows").textContent = hidden ? `${hidden} of ${rows.length} runs are hidden by the filters.` : "";
  }
}

if (chooser !== null) {
  document.getElementById("filters").hidden = false;
  for (const control of [chooser, name, reproducible]) control.addEventListener("input", show);
  show();
}

// Shows the chosen variants of charts, and the chosen terms. The page defines `terms` before this script.
for (const chooser of document.querySelectorAll("select[data-plot]")) {
  chooser.addEventListener("change", () => {
    [...document.getElementById(chooser.dataset.plot).children].forEach((part, index) => { part.hidden = index !== Number(chooser.value); });
  });
}

// The index of the name of the point at the pointer. Many points are one path, whose `data-rows` contains their indices.
function rowAt(event) {
  const marked = event.target.closest("[data-row]");
  if (marked) return Number(marked.dataset.row);
  const path = event.target.closest(".dots");
  if (!path) return null;
  const box = path.parentNode.getBoundingClientRect();
  let nearest = null, least = 80;  // square pixels
  [...path.getAttribute("d").matchAll(/M(-?\d+) (-?\d+)/g)].forEach(([, x, y], index) => {
    const distance = (box.left + x * box.width / 1000 - event.clientX) ** 2 + (box.top + Number(y) - event.clientY) ** 2;
    if (distance < least) [nearest, least] = [index, distance];
  });
  return nearest === null ? null : Number(path.dataset.rows.split(" ")[nearest]);
}

for (const plot of document.querySelectorAll("[data-names]")) {
  const names = JSON.parse(plot.dataset.names);
  plot.addEventListener("mousemove", (event) => {
    const row = rowAt(event);
    plot.title = row === null ? "" : names[row];
  });
}

// Links and printing open the folds in which their targets are.
function openFolds(element) {
  for (let fold = element && element.closest("details"); fold; fold = fold.parentNode.closest("details")) fold.open = true;
  if (element) element.scrollIntoView();
}
addEventListener("hashchange", () => openFolds(document.getElementById(location.hash.slice(1))));
if (location.hash) openFolds(document.getElementById(location.hash.slice(1)));
addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll(".fold")) fold.open = true; });

const minus = (text) => text.replace("-", "−");
const percent = (share, digits = 1) => share === null ? "–" : (100 * share).toFixed(digits) + "%";

function element(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;  // as text and not as HTML, because terms and replies are untrusted
  if (className) made.className = className;
  if (className === "reply") made.dir = "auto";
  return made;
}

function tableOf(caption, heads, rows) {
  const table = document.createElement("table");
  const head = document.createElement("thead");
  const body = document.createElement("tbody");
  const names = document.createElement("tr");
  names.append(document.createElement("td"));
  for (const text of heads) {
    const cell = element("th", text, "number");
    cell.scope = "col";
    names.append(cell);
  }
  head.append(names);
  for (const [name, ...cells] of rows) {
    const line = document.createElement("tr");
    const first = element("th", name);
    first.scope = "row";
    line.append(first, ...cells.map((text) => element("td", text, "number")));
    body.append(line);
  }
  table.append(element("caption", caption), head, body);
  return table;
}

const fullName = (row) => `${row.name} (${terms.axes[row.axis]})`;

// What the menus above example replies choose from.
const partsOf = ([why, , , style, , parrots, template]) => ({
  template: [terms.templates[template]], style: [style], flag: parrots ? [why, "parrots the prompt"] : [why],
});
const menus = [...document.querySelectorAll("select[data-part]")];

// Shows a term of one run: its values, the mean values of all terms, and its example replies.
function oneRun(index) {
  const row = terms.rows[index];
  const lines = terms.clusters.map((name, cluster) => [name, percent(row.clusters[cluster], 2), percent(terms.means[cluster], 2)]);
  lines.push(
    ["mean bias value", minus(row.bias.toFixed(4)), ""],
    ["replies that parrot the prompt", percent(row.parroting), ""],
    ["uses in a million examples", row.perMillion === null ? "not known" : row.perMillion.toFixed(1), ""],
  );
  const replies = terms.examples[index].map((example) => {
    const [why, prompt, reply, style, probability, parrots] = example;
    const box = element("div", "", "example");
    box.parts = partsOf(example);
    const about = `${why}; style ${style} (${percent(probability, 0)})${parrots ? "; parrots the prompt" : ""}`;
    box.append(element("p", prompt, "soft"), element("p", reply, "reply"), element("p", about, "soft"));
    return box;
  });
  return {
    values: tableOf(`${fullName(row)}: ${row.replies} replies`, ["this term", "mean of all terms"], lines),
    replies,
    spoken: terms.clusters.map((name, cluster) => `${name} ${percent(row.clusters[cluster])}`),
    count: `${row.replies} replies`,
  };
}

// Shows a term of two runs: the values in both runs, and their replies to the same prompts.
function twoRuns(index) {
  const row = terms.rows[index];
  const signed = (change, digits) => {
    const size = Math.abs(change).toFixed(digits);
    return (Number(size) === 0 ? "" : change > 0 ? "+" : "−") + size;
  };
  const shares = [...terms.clusters.map((name, cluster) => [name, row.clusters[cluster], 2]), ["parroting", row.parroting, 1]];
  const lines = shares.map(([name, [first, second], digits]) => [
    name, percent(first, digits), percent(second, digits), signed(100 * (second - first), digits),
  ]);
  const [first, second] = row.bias;
  lines.push(["mean bias value", minus(first.toFixed(4)), minus(second.toFixed(4)), signed(second - first, 4)]);
  const replies = terms.pairs[index].map(([prompt, before, after, why, numbers]) => {
    const box = element("div", "", "example");
    const both = element("div", "", "side-by-side");
    [["first", before], ["second", after]].forEach(([run, reply], index) => {
      const side = document.createElement("div");
      const name = `${run}: ${terms.names[index]}${numbers ? `, reply ${numbers[index]}` : ""}`;
      side.append(element("p", name, "soft"), element("p", reply, "reply"));
      both.append(side);
    });
    box.append(element("p", `${prompt} (${why})`, "soft"), both);
    return box;
  });
  const counts = `${row.replies[0]} and ${row.replies[1]} replies`;
  return {
    values: tableOf(`${fullName(row)}: ${counts}`, ["first", "second", "change"], lines),
    replies,
    spoken: terms.clusters.map((name, cluster) => `${name} ${row.clusters[cluster].map((value) => percent(value)).join(" then ")}`),
    count: counts,
  };
}

function showTerm(side, index) {
  const values = document.getElementById(`values-${side}`);
  const replies = document.getElementById(`replies-${side}`);
  values.hidden = index === null;  // an empty table cannot get the keyboard's focus
  if (index === null) {
    values.replaceChildren();
    replies.replaceChildren();
    return "";
  }
  const row = terms.rows[index];
  const shown = terms.pairs ? twoRuns(index) : oneRun(index);
  const filter = document.getElementById("reply-filter");
  const wanted = filter ? filter.value.toLowerCase() : "";
  const isChosen = (box) => menus.every((menu) => !menu.value || box.parts[menu.dataset.part].includes(menu.value));
  shown.replies = shown.replies.filter((box) => isChosen(box) && box.textContent.toLowerCase().includes(wanted));
  const replyBoxes = shown.replies.length ? shown.replies : [element("p", "No such replies.")];
  values.replaceChildren(shown.values);
  replies.replaceChildren(element(terms.pairs ? "h3" : "h4", fullName(row)), ...replyBoxes);
  return `${row.name}, ${shown.count}. ${shown.spoken.join(", ")}. ${shown.replies.length} example replies.`;
}

if (terms !== null) {
  const status = document.getElementById("chosen-term");
  const chosen = {left: terms.rows.length ? 0 : null, right: null};
  const selects = {};
  function fill(side) {
    const {axis, term} = selects[side];
    term.replaceChildren();
    if (side === "right") term.append(new Option("none", ""));
    terms.rows.forEach((row, index) => { if (row.axis === axis.value) term.append(new Option(row.name, index)); });
  }
  function choose(side, index, announce) {
    chosen[side] = index;
    if (index !== null && selects[side].axis.value !== terms.rows[index].axis) {
      selects[side].axis.value = terms.rows[index].axis;
      fill(side);
    }
    selects[side].term.value = index === null ? "" : index;
    const spoken = showTerm(side, index);
    if (announce) status.textContent = spoken;
  }
  for (const side of ["left", "right"]) {
    if (document.getElementById(`axis-${side}`) === null) continue;
    selects[side] = {axis: document.getElementById(`axis-${side}`), term: document.getElementById(`term-${side}`)};
    for (const [axis, label] of Object.entries(terms.axes)) selects[side].axis.append(new Option(label, axis));
    fill(side);
    selects[side].axis.addEventListener("change", () => {
      fill(side);
      choose(side, side === "right" ? null : Number(selects[side].term.value), true);
    });
    selects[side].term.addEventListener("change", () => {
      choose(side, selects[side].term.value === "" ? null : Number(selects[side].term.value), true);
    });
    choose(side, chosen[side], false);
  }
  for (const menu of menus) {
    const values = new Set(terms.examples.flat().flatMap((example) => partsOf(example)[menu.dataset.part]));
    menu.append(new Option("all", ""), ...[...values].sort().map((value) => new Option(value)));
  }
  for (const filter of document.querySelectorAll("#reply-filter, select[data-part]")) {
    filter.addEventListener("input", () => { for (const side of Object.keys(selects)) showTerm(side, chosen[side]); });
  }
  // Pointing at a term shows it beside the chosen term. Clicking a term chooses it.
  for (const id of ["terms-plot", "frequency-plot"]) {
    const plot = document.getElementById(id);
    if (plot === null) continue;
    plot.addEventListener("mousemove", (event) => {
      const index = rowAt(event);
      showTerm("right", index === null || index === chosen.left ? chosen.right : index);
    });
    plot.addEventListener("mouseleave", () => showTerm("right", chosen.right));
    plot.addEventListener("click", (event) => {
      const index = rowAt(event);
      if (index !== null) choose("left", index, true);
    });
  }
}

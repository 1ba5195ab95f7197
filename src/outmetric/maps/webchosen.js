// The chosen row: its neighbours and why they are near, what a model says of it, its cells; and how rows are found.
const MOST_LETTERS_OF_REASON = 30;
const MOST_BARS = 6;
// Rows with a larger quantile are said to be far from everything.
const FAR = 0.95;

const tip = byId("tip");
let chosen = []; // the row whose neighbours are listed, if any
let neighbours = []; // of that row: [row, distance], the nearest first
let hovered = null; // the row that the tip shows
let search = { text: "", matches: [], place: 0 };

// [row, distance] of the known rows nearest to some coordinates, by brute force; the earlier row first where distances are equal.
function nearestTo(coordinates, most, itself = -1) {
  const squares = new Float64Array(known);
  given.metric.forEach((component, index) => {
    const centre = coordinates[index];
    for (let i = 0; i < known; i++) squares[i] += (component[i] - centre) ** 2;
  });
  const near = [];
  for (let i = 0; i < known; i++) {
    if (i === itself || (near.length === most && squares[i] >= squares[near[near.length - 1]])) continue;
    let place = near.length;
    while (place > 0 && squares[near[place - 1]] > squares[i]) place -= 1;
    near.splice(place, 0, i);
    if (near.length > most) near.pop();
  }
  return near.map((i) => [i, Math.sqrt(squares[i])]);
}

// A table of a row's cells: all of them, or the first ones in short.
function cells(row, whole) {
  const table = element("table");
  const most = whole ? columns.length : MOST_COLUMNS;
  for (const column of columns.slice(0, most)) {
    const line = table.insertRow();
    line.append(element("th", shortened(column.name, whole ? MOST_LETTERS_WHOLE : MOST_LETTERS)), element("td", cell(column, row, whole)));
    for (const part of line.cells) part.dir = "auto";
  }
  const more = columns.length - most;
  if (more > 0) table.insertRow().append(element("th", "…"), element("td", `${more} more columns`));
  return table;
}

// Why a neighbour of a row is near: columns that usually tell the row from others, with both values; nothing if that is not known.
function reasons(row, other) {
  if (!why || row >= known) return "";
  const most = why.neighbours.length / known;
  for (let pair = row * most; pair < (row + 1) * most; pair++) {
    if (why.neighbours[pair] !== other) continue;
    const found = why.places.slice(pair * why.most, (pair + 1) * why.most);
    return [...found].filter((place) => place < columns.length).map((place) => beside(columns[place], row, other)).join("; ");
  }
  return "";
}

function beside(column, row, other) {
  const [one, two] = [cell(column, row), cell(column, other)].map((text) => shortened(text, MOST_LETTERS_OF_REASON));
  return `${shortened(column.name, MOST_LETTERS_OF_REASON)} ${one === two ? `${one} in both` : `${one} beside ${two}`}`;
}

// Bars of the classes that the row is likely to have, and whether it is far from everything.
function opinions(row) {
  const found = [];
  const novelty = row < known && data.novelty !== null ? columns[data.novelty].values[row] : NaN;
  if (novelty > FAR) {
    found.push(element("p", `Far from all other rows: ${Math.floor(100 * novelty)} % of the rows are less so.`, "warning"));
  }
  const own = row < known && chances ? [...chances.subarray(row * data.classes.length, (row + 1) * data.classes.length)] : [NaN];
  if (Number.isNaN(own[0])) return found;
  const likely = [...own.keys()].sort((a, b) => own[b] - own[a]).slice(0, MOST_BARS).filter((place, rank) => !rank || own[place] >= 5e-4);
  const list = element("ul", "", "bars");
  for (const place of likely) {
    const line = element("li");
    const bar = element("span", "", "share");
    bar.style.width = `${100 * own[place]}%`;
    const name = element("span", shortened(data.classes[place]), "name");
    name.dir = "auto";
    line.append(name, element("span", `${(100 * own[place]).toFixed(1)} %`, "count"), bar);
    list.append(line);
  }
  found.push(element("p", "How likely its classes are to a model that has not seen its label:"), list);
  return found;
}

// A button that chooses a row, with texts for its name and what else is to be said.
function rowButton(row, ...parts) {
  const made = button("", () => {
    choose(row);
    document.querySelector("#row h2").focus();
  });
  const name = element("span", shortened(rowName(row)), "name");
  name.dir = "auto";
  made.append(name, ...parts);
  const item = element("li");
  item.append(made);
  return item;
}

function choose(row) {
  chosen = [row];
  neighbours = nearestTo(metric.map((component) => component[row]), data.neighbors, row);
  const list = element("ol");
  for (const [other, distance] of neighbours) {
    const text = reasons(row, other);
    list.append(rowButton(
      other,
      element("span", label() ? cell(label(), other) : "", "label"),
      element("span", distance.toPrecision(4), "distance"),
      ...(text ? [element("span", text, "why")] : []),
    ));
  }
  const heading = element("h2", `Row ${shortened(rowName(row), MOST_LETTERS_WHOLE)}`);
  heading.tabIndex = -1; // so that the keyboard stays here when the list is made anew
  heading.dir = "auto";
  const missing = data.reasons && !why ? ` ${data.reasons.missing}` : "";
  const what = element("p", `Nearest neighbours, their distance${why && row < known ? ", and why they are near" : ""}:${missing}`);
  byId("row").replaceChildren(heading, ...opinions(row), what, list, cells(row, true));
  mark(row);
}

// Draw the marks of the chosen row, which is brought into view.
function mark(row) {
  const drawn = marks();
  const change = Object.fromEntries(["x", "y", ...(solid ? ["z"] : [])].map((name) => [name, drawn.map((one) => one[name])]));
  const shift = solid ? { "scene.annotations": arrows() } : {};
  for (const [index, name] of solid ? [] : ["xaxis", "yaxis"].entries()) {
    const [low, high] = plot.layout[name].range;
    const value = axes[index][row];
    if (value < low || value > high) shift[`${name}.range`] = [value - (high - low) / 2, value + (high - low) / 2];
  }
  Plotly.update(plot, change, shift, drawn.map((_, index) => groups.length + index));
}

// Rows whose id is the text; otherwise those whose id begins with it, and then those that contain it, in any case.
function matching(text) {
  const names = Array.from({ length: rows }, (_, row) => rowName(row));
  const which = (test) => names.flatMap((name, row) => (test(name) ? [row] : []));
  const exact = which((name) => name.trim() === text);
  if (exact.length) return exact;
  const place = (name) => name.toLowerCase().indexOf(text.toLowerCase());
  return [...which((name) => place(name) === 0), ...which((name) => place(name) > 0)];
}

function find(text) {
  const found = byId("found");
  if (!text) {
    found.textContent = "";
    return;
  }
  // The same text again goes on to the next row.
  search = text === search.text ? { ...search, place: search.place + 1 } : { text, matches: matching(text), place: 0 };
  const { matches } = search;
  if (!matches.length) {
    found.textContent = `No row has an id like ${shortened(text)}.`;
    return;
  }
  const place = search.place % matches.length;
  found.textContent = matches.length > 1 ? `${place + 1} of ${matches.length} rows; Find again for the next.` : "";
  choose(matches[place]);
}

// The row of a point that plotly tells of.
function rowOf({ points: [point] }) {
  return groups[point.curveNumber].rows[point.pointNumber];
}

function hover(row) {
  hovered = row;
  const name = element("strong", shortened(rowName(row)));
  name.dir = "auto";
  tip.replaceChildren(name, cells(row, false));
  tip.hidden = false;
  place();
}

function leave() {
  hovered = null;
  tip.hidden = true;
}

// Beside the pointer, within the window.
const pointer = { x: 0, y: 0 };
function place() {
  const right = pointer.x + 16 + tip.offsetWidth < window.innerWidth;
  tip.style.left = `${right ? pointer.x + 16 : Math.max(4, pointer.x - 16 - tip.offsetWidth)}px`;
  tip.style.top = `${Math.max(4, Math.min(pointer.y + 12, window.innerHeight - tip.offsetHeight - 4))}px`;
}

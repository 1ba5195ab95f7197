// What the page holds: rows with their places, coordinates and columns, and all of it as text.
// The files of the script share one scope; Python puts them together (webmap.SCRIPTS).
// Texts of the data reach the page through textContent only, and plotly not at all: it takes some texts for HTML.
const TYPES = {
  u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array,
  f4: Float32Array, f8: Float64Array,
};
const MOST_CLASSES = 30;
const MOST_COLUMNS = 20;
const MOST_LETTERS = 80;
// Of what is shown whole; browsers freeze over texts of megabytes.
const MOST_LETTERS_WHOLE = 10000;

const data = JSON.parse(document.getElementById("data").textContent);
const known = unpack(data.axes[0]).length; // rows that the page came with; later ones were added by its reader
let rows = known;
let places = { unseen: data.axes.map(unpack), fitted: data.fitted?.map(unpack) };
let axes = places.unseen; // where the rows are drawn now
let metric = data.metric ? data.metric.map(unpack) : places.unseen;
let columns = data.columns.map((column) => ({ ...column, values: unpack(column.values) }));
let addedNames = [];
const given = { places, metric, columns }; // without added rows
const label = () => (data.labelled ? columns[0] : null);
const chances = data.probabilities ? unpack(data.probabilities) : null;
const why = data.reasons?.places
  ? { ...data.reasons, neighbours: unpack(data.reasons.neighbours), places: unpack(data.reasons.places) }
  : null;

// The typed array that was packed in base64; the bytes are little-endian, as in every browser.
function unpack({ type, bytes }) {
  const text = atob(bytes);
  const array = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) array[i] = text.charCodeAt(i);
  return new TYPES[type](array.buffer);
}

function byId(id) {
  return document.getElementById(id);
}

function element(tag, text = "", name = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

function button(text, action) {
  const made = element("button", text);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

function shortened(text, most = MOST_LETTERS) {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

// "1 row", "2 rows".
function counted(count, what = "row") {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

function rowName(row) {
  if (row >= known) return addedNames[row - known];
  return data.ids ? data.ids[row] : String(row);
}

function isMissing(column, row) {
  return column.kind === "text" ? column.values[row] === column.texts.length : Number.isNaN(column.values[row]);
}

// A cell as text, whole or in short.
function cell(column, row, whole = false) {
  if (isMissing(column, row)) return "missing";
  if (column.kind !== "text") return numberText(column, column.values[row], whole);
  const text = column.texts[column.values[row]];
  return shortened(text, whole ? MOST_LETTERS_WHOLE : MOST_LETTERS);
}

// A number or date of a column as text.
function numberText(column, value, whole = false) {
  if (column.kind === "date") {
    const date = new Date(value);
    const text = Number.isNaN(date.getTime()) ? String(value) : date.toISOString().replace("T", " ").replace(/(\.000)?Z$/, "");
    return text.replace(/ 00:00:00$/, "");
  }
  if (Number.isInteger(value)) return String(value);
  if (!whole) return String(Math.abs(value) < 1e5 ? Number(value.toPrecision(5)) : Math.round(value));
  // No more digits than the type holds: 0.1 would become 0.10000000149.
  return String(Number(value.toPrecision(column.values instanceof Float32Array ? 7 : 15)));
}

function gather(values, members) {
  return Float64Array.from(members, (row) => values[row]);
}

// Rows from the first to the last but one, for which a test holds.
function rowsWhere(first, last, test) {
  const found = [];
  for (let row = first; row < last; row++) if (test(row)) found.push(row);
  return found;
}

// The same values with more at their end, and room for gaps.
function extended(values, added) {
  const whole = new (values instanceof Float32Array ? Float32Array : Float64Array)(values.length + added.length);
  whole.set(values);
  whole.set(added, values.length);
  return whole;
}

// Take rows into the page, in the place of those that were added before: names, places, coordinates, and texts by column name.
function addRows(names, newPlaces, newMetric, texts) {
  addedNames = names;
  rows = known + names.length;
  const longer = (lists, more) => lists?.map((values, index) => extended(values, more[index]));
  const drawn = Object.keys(given.places).find((name) => axes === places[name]);
  places = { unseen: longer(given.places.unseen, newPlaces.unseen), fitted: longer(given.places.fitted, newPlaces.fitted) };
  axes = places[drawn];
  metric = longer(given.metric, newMetric);
  columns = given.columns.map((column) => withCells(column, names.map((_, row) => texts.get(column.name)?.[row] ?? null)));
}

// A column with more cells, given as texts, null for gaps.
function withCells(column, cellsOfRows) {
  if (column.kind !== "text") {
    const read = column.kind === "date" ? parsedDate : parsedNumber;
    return { ...column, values: extended(column.values, cellsOfRows.map((text) => (text === null ? NaN : read(text)))) };
  }
  const texts = [...new Set([...column.texts, ...cellsOfRows.filter((text) => text !== null)])];
  const codes = new Map(texts.map((text, code) => [text, code]));
  const values = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) {
    const text = row < known ? column.texts[column.values[row]] : cellsOfRows[row - known];
    values[row] = codes.get(text) ?? texts.length;
  }
  return { ...column, texts, values };
}

// NaN for what is no number; a decimal comma is one if there is no point.
function parsedNumber(text) {
  const plain = text.trim().replace(/^([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)$/, "$1.$2");
  return /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(plain) ? Number(plain) : NaN;
}

// Milliseconds since 1970 of ISO text, on its own calendar and clock; NaN for what is none.
function parsedDate(text) {
  const [, day, clock] = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?$/.exec(text.trim()) ?? [];
  return day ? Date.parse(`${day}T${clock ?? "00:00"}Z`) : NaN;
}

// Which rows are shown, which are picked, and the picked ones as a CSV file.
const TYPING = 150; // milliseconds after the last letter
const DAY = 86400000;
// A spreadsheet takes a cell that begins so for a formula, unless it is a plain number (the rule of outmetric.tables.writing).
const FORMULA = /^[\p{Cc}\p{Cf}]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/u;
const PLAIN_NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

const conditions = new Map(); // by place of column: what its controls say
const filtered = byId("filtered");

// A labelled control of the filter; it starts as the condition has it.
function control(text, type, value) {
  const holder = element("label", text);
  const made = element("input");
  made.type = type;
  if (type === "checkbox") made.checked = value;
  else made.value = value;
  if (type === "number") made.step = "any";
  if (type === "checkbox") holder.prepend(made);
  else holder.append(made);
  return [holder, made];
}

// The controls of the column that the filter is about now.
function writeControls() {
  const place = Number(filtered.value);
  const column = columns[place];
  const condition = conditions.get(place) ?? { low: "", high: "", text: "", without: new Set() };
  const area = byId("condition");
  area.replaceChildren();
  if (!column) return;
  let timer = 0;
  const add = (text, type, value, change) => {
    const [holder, made] = control(text, type, value);
    made.addEventListener("input", () => {
      change(made);
      window.clearTimeout(timer);
      timer = window.setTimeout(() => setCondition(place, condition), type === "checkbox" ? 0 : TYPING);
    });
    area.append(holder);
    return holder;
  };
  if (column.kind !== "text") {
    const type = column.kind === "date" ? "date" : "number";
    add("from ", type, condition.low, (made) => { condition.low = made.value; });
    add("to ", type, condition.high, (made) => { condition.high = made.value; });
    return;
  }
  add("contains ", "search", condition.text, (made) => { condition.text = made.value; });
  if (column.texts.length > MOST_CLASSES) return;
  for (const text of [...column.texts, null]) { // null: a gap
    const holder = add(shortened(text ?? "missing"), "checkbox", !condition.without.has(text), (made) => {
      if (made.checked) condition.without.delete(text);
      else condition.without.add(text);
    });
    holder.dir = "auto";
    holder.className = "category";
  }
}

// Whether a row passes a condition of a column.
function passes(column, { low, high, text, without }) {
  if (column.kind === "text") {
    const wanted = text.toLowerCase();
    const good = column.texts.map((one) => !without.has(one) && one.toLowerCase().includes(wanted));
    good.push(!without.has(null) && !wanted);
    return (row) => good[column.values[row]];
  }
  const bound = (value, more) => (column.kind === "date" ? Date.parse(value) + more : Number(value));
  const least = low === "" ? -Infinity : bound(low, 0);
  const most = high === "" ? Infinity : bound(high, DAY - 1); // the whole of the last day
  return (row) => column.values[row] >= least && column.values[row] <= most;
}

function isEmpty({ low, high, text, without }) {
  return !low && !high && !text && !without.size;
}

function described(column, { low, high, text, without }) {
  const parts = [];
  if (low) parts.push(`from ${low}`);
  if (high) parts.push(`to ${high}`);
  if (text) parts.push(`contains ${shortened(text, MOST_LETTERS_OF_REASON)}`);
  if (without.size) parts.push(`without ${counted(without.size, "value")}`);
  return `${shortened(column.name, MOST_LETTERS_OF_REASON)}: ${parts.join(", ")}`;
}

function setCondition(place, condition) {
  if (isEmpty(condition)) conditions.delete(place);
  else conditions.set(place, condition);
  filter();
}

// Hide what does not pass, and say how much is left.
function filter() {
  const tests = [...conditions].map(([place, condition]) => passes(columns[place], condition));
  hidden = Uint8Array.from({ length: rows }, (_, row) => (tests.every((test) => test(row)) ? 0 : 1));
  picked = new Set([...picked].filter((row) => row < rows && !hidden[row]));
  const left = hidden.reduce((sum, one) => sum + 1 - one, 0);
  byId("kept").textContent = conditions.size ? `${left} of ${counted(rows)} shown` : "";
  const list = [...conditions].map(([place, condition]) => {
    const item = element("li", `${described(columns[place], condition)} `);
    item.dir = "auto";
    const remove = button("remove", () => {
      conditions.delete(place);
      writeControls();
      filter();
      filtered.focus();
    });
    remove.setAttribute("aria-label", `Remove the filter of ${shortened(columns[place].name)}`);
    item.append(remove);
    return item;
  });
  byId("conditions").replaceChildren(...list);
  draw();
  writeLegend();
  writePicked();
}

function pick(found) {
  picked = new Set(found);
  const change = { selectedpoints: groups.map(pickedPlaces) };
  if (!solid) Plotly.update(plot, change, { selections: [] }, [...groups.keys()]);
  writePicked();
}

function writePicked() {
  byId("picked").textContent = picked.size ? `${counted(picked.size)} selected` : "No rows selected";
  byId("save").disabled = !picked.size;
  byId("unpick").disabled = !picked.size;
}

// Text in quotes, with an apostrophe before what a spreadsheet would run.
function quoted(text) {
  const harmless = FORMULA.test(text) && !PLAIN_NUMBER.test(text) ? `'${text}` : text;
  return `"${harmless.replaceAll('"', '""')}"`;
}

// With as many digits as it takes to read the same number.
function exact(values, value) {
  if (!(values instanceof Float32Array)) return String(value);
  const short = [6, 7, 8, 9].map((digits) => Number(value.toPrecision(digits)));
  return String(short.find((one) => Math.fround(one) === value) ?? value);
}

function csvCell(column, row) {
  if (isMissing(column, row)) return "";
  if (column.kind === "text") return quoted(column.texts[column.values[row]]);
  return column.kind === "date" ? numberText(column, column.values[row]) : exact(column.values, column.values[row]);
}

// Ids, all columns and all places of rows.
function csv(members) {
  const drawn = [["map", places.unseen], ["fitted", places.fitted ?? []]];
  const coordinates = drawn.flatMap(([name, lists]) => lists.map((values, index) => [`${name} ${index + 1}`, values]));
  const names = ["id", ...columns.map((column) => column.name), ...coordinates.map(([name]) => name)];
  const lines = members.map((row) => [
    quoted(rowName(row)),
    ...columns.map((column) => csvCell(column, row)),
    ...coordinates.map(([, values]) => exact(values, values[row])),
  ]);
  return [names.map(quoted), ...lines].map((parts) => `${parts.join(",")}\n`).join("");
}

// Nothing is sent: the file is made here, and the browser saves it.
function save() {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([csv([...picked].sort((a, b) => a - b))], { type: "text/csv" }));
  link.download = "rows.csv";
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), DAY / 1440);
}

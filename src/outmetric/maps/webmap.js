// The page of an interactive map: draws the rows, colours them by a column, and lists the nearest neighbours of a chosen one.
// Texts of the data reach the page through textContent only, and plotly not at all: it takes some texts for HTML.
"use strict";
(() => {
  const TYPES = {
    u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array,
    f4: Float32Array, f8: Float64Array,
  };
  // How plotly calls a mark, and a letter that looks like it. These are the filled ones that 2-D and 3-D have in common.
  const SYMBOLS = [["circle", "●"], ["square", "■"], ["diamond", "◆"]];
  // Drawn below the classes, and listed after them.
  const OTHER = { colour: "#cccccc", symbol: ["circle", "●"], last: 1 };
  const MISSING = { colour: "#999999", symbol: ["circle-open", "○"], last: 2 };
  const MOST_CLASSES = 30;
  const MOST_COLUMNS = 20;
  const MOST_LETTERS = 80;
  // Of what is shown whole; browsers freeze over texts of megabytes.
  const MOST_LETTERS_WHOLE = 10000;

  const data = JSON.parse(document.getElementById("data").textContent);
  const axes = data.axes.map(unpack);
  const metric = data.metric ? data.metric.map(unpack) : axes;
  const columns = data.columns.map((column) => ({ ...column, values: unpack(column.values) }));
  const label = data.labelled ? columns[0] : null;
  const rows = axes[0].length;
  const solid = axes.length === 3;
  const type = solid ? "scatter3d" : "scattergl";
  const size = Math.min(8, Math.max(3, 14 - 2.4 * Math.log10(rows))) * (solid ? 0.7 : 1);
  const plot = document.getElementById("plot");
  const legend = document.getElementById("legend");
  const colour = document.getElementById("colour");
  const tip = document.getElementById("tip");
  let groups = []; // of rows that look alike; one trace each, before the traces of the marks
  let chosen = []; // the row whose neighbours are listed, if any
  let neighbours = []; // of that row: [row, distance], the nearest first
  let hovered = null; // the row that the tip shows
  let search = { text: "", matches: [], place: 0 };

  // The typed array that was packed in base64; the bytes are little-endian, as in every browser.
  function unpack({ type, bytes }) {
    const text = atob(bytes);
    const array = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) array[i] = text.charCodeAt(i);
    return new TYPES[type](array.buffer);
  }

  function element(tag, text = "", name = "") {
    const made = document.createElement(tag);
    made.textContent = text;
    if (name) made.className = name;
    return made;
  }

  function shortened(text, most = MOST_LETTERS) {
    return text.length > most ? `${text.slice(0, most)}…` : text;
  }

  function rowName(row) {
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

  // Rows with the same look, in the order of drawing: a group for each text, or one with a colour for each number.
  function grouped(column) {
    const all = Int32Array.from({ length: rows }, (_, row) => row);
    if (!column) return [{ name: "rows", rows: all, colour: data.colours[0], symbol: SYMBOLS[0] }];
    const colourless = (row) => isMissing(column, row) || column.values[row] === Infinity || column.values[row] === -Infinity;
    const members = all.filter((row) => !colourless(row));
    const found = column.kind === "text" ? classes(column, members) : [range(column, members)];
    return [{ name: "missing", rows: all.filter(colourless), ...MISSING }, ...found].filter((group) => group.rows.length);
  }

  // Only the most frequent texts have a colour of their own; the colours repeat with other marks.
  function classes(column, all) {
    const counts = new Uint32Array(column.texts.length);
    for (const row of all) counts[column.values[row]] += 1;
    const codes = column.texts.map((_, code) => code);
    const frequent = [...codes].sort((a, b) => counts[b] - counts[a] || a - b).slice(0, MOST_CLASSES - 1);
    const kept = codes.length > MOST_CLASSES ? frequent.sort((a, b) => a - b) : codes;
    const place = new Map(kept.map((code, index) => [code, index]));
    const members = kept.map(() => []);
    const rest = [];
    for (const row of all) (members[place.get(column.values[row])] ?? rest).push(row);
    const found = kept.map((code, index) => ({
      name: column.texts[code],
      rows: members[index],
      colour: data.colours[index % data.colours.length],
      symbol: SYMBOLS[Math.floor(index / data.colours.length)],
    }));
    return [{ name: `other (${codes.length - kept.length} values)`, rows: rest, ...OTHER }, ...found];
  }

  // The colours reach from the first to the last percentile, so that a few outliers do not take them all.
  function range(column, members) {
    const sorted = gather(column.values, members).sort();
    const at = (share) => sorted[Math.round(share * (sorted.length - 1))] ?? NaN;
    const [low, high] = at(0.01) < at(0.99) ? [at(0.01), at(0.99)] : [at(0), at(1)];
    const [first, last] = [numberText(column, low), numberText(column, high)];
    const ends = [at(0) < low ? `≤ ${first}` : first, at(1) > high ? `≥ ${last}` : last];
    return { rows: members, symbol: SYMBOLS[0], colour: gather(column.values, members), low, high, ends };
  }

  function gather(values, members) {
    return Float64Array.from(members, (row) => values[row]);
  }

  function points(members) {
    const [x, y, z] = axes.map((axis) => gather(axis, members));
    return solid ? { x, y, z } : { x, y };
  }

  function trace(group) {
    return {
      ...points(group.rows),
      type,
      mode: "markers",
      hoverinfo: "none",
      marker: {
        size,
        color: group.colour,
        symbol: group.symbol[0],
        opacity: solid ? 1 : 0.8,
        line: { width: 0 },
        ...(group.ends && { colorscale: data.scale, cmin: group.low, cmax: group.high, showscale: false }),
      },
    };
  }

  // Lines from the chosen row to its neighbours, rings around these, and a dot on the row itself.
  function marks() {
    const near = neighbours.map(([row]) => row);
    const look = { type, hoverinfo: "skip", connectgaps: false };
    const round = (symbol, edge) => ({ symbol, size: size + 4, color: "black", line: { width: 1.5, color: edge } });
    const rays = points(near.flatMap((row) => [...chosen, row, -1])); // row -1 has no coordinates: a gap
    return [
      { ...look, ...rays, mode: "lines", line: { color: "#555555", width: 1 } },
      { ...look, ...points(near), mode: "markers", marker: round("circle-open", "black") },
      { ...look, ...points(chosen), mode: "markers", marker: round("circle", "white") },
    ];
  }

  // An arrow to the chosen row of a 3-D map, where other rows may hide it.
  function arrows() {
    return chosen.map((row) => {
      const [x, y, z] = axes.map((axis) => axis[row]);
      return { x, y, z, text: "", ax: 40, ay: -50, arrowhead: 2, arrowwidth: 2 };
    });
  }

  function layout() {
    // Fixed ranges: the map stays where it is when classes come and go.
    const axis = (index) => {
      const low = axes[index].reduce((one, other) => Math.min(one, other));
      const high = axes[index].reduce((one, other) => Math.max(one, other));
      const margin = 0.05 * (high - low) || 1;
      const title = { text: `component ${index + 1}` };
      return { title, range: [low - margin, high + margin], zeroline: false, showspikes: false };
    };
    const common = { showlegend: false, hovermode: "closest" };
    if (solid) {
      const camera = { eye: { x: 1.4, y: 1.4, z: 0.9 }, center: { x: 0, y: 0, z: -0.1 } };
      const [xaxis, yaxis, zaxis] = [axis(0), axis(1), axis(2)];
      // One scale for all axes, since distances matter; the longest just fits.
      const [x, y, z] = [xaxis, yaxis, zaxis].map(({ range: [low, high] }) => high - low);
      const unit = Math.max(x, y, z) / 1.25;
      const aspectratio = { x: x / unit, y: y / unit, z: z / unit };
      const scene = { xaxis, yaxis, zaxis, aspectmode: "manual", aspectratio, camera };
      return { ...common, scene, margin: { l: 0, r: 0, t: 0, b: 0 } };
    }
    // With one component the height is the target, or only keeps points apart.
    const upright = {
      component: { scaleanchor: "x" },
      target: { title: { text: "target" } },
      nothing: { title: { text: "" }, showticklabels: false, showgrid: false },
    }[data.height];
    const yaxis = { ...axis(1), ...upright };
    return { ...common, dragmode: "pan", xaxis: axis(0), yaxis, margin: { l: 60, r: 15, t: 30, b: 50 } };
  }

  // Buttons are listed, because plotly's own choice may include one that sends the data away.
  function config() {
    const buttons = solid
      ? [["toImage"], ["orbitRotation", "pan3d", "zoom3d"], ["resetCameraDefault3d"]]
      : [["toImage"], ["pan2d", "zoom2d", "zoomIn2d", "zoomOut2d"], ["resetScale2d"]];
    const looks = { responsive: true, scrollZoom: true, displayModeBar: true, displaylogo: false };
    return { ...looks, modeBarButtons: buttons, plotlyServerURL: "" };
  }

  // [row, distance] of the rows nearest to one of them, by brute force; the earlier row first where distances are equal.
  function nearest(row) {
    const squares = new Float64Array(rows);
    for (const component of metric) {
      const centre = component[row];
      for (let i = 0; i < rows; i++) squares[i] += (component[i] - centre) ** 2;
    }
    const near = [];
    for (let i = 0; i < rows; i++) {
      if (i === row || (near.length === data.neighbors && squares[i] >= squares[near[near.length - 1]])) continue;
      let place = near.length;
      while (place > 0 && squares[near[place - 1]] > squares[i]) place -= 1;
      near.splice(place, 0, i);
      if (near.length > data.neighbors) near.pop();
    }
    return near.map((i) => [i, Math.sqrt(squares[i])]);
  }

  function recolour() {
    groups = grouped(columns[colour.value]);
    Plotly.react(plot, [...groups.map(trace), ...marks()], plot.layout ?? layout(), config());
    legend.replaceChildren(element("h2", shortened(columns[colour.value]?.name ?? "rows")));
    for (const group of groups.filter((one) => one.ends)) {
      const bar = element("div", "", "bar");
      bar.style.background = `linear-gradient(to right, ${data.scale.map(([, name]) => name).join(", ")})`;
      const ends = element("div", "", "ends");
      ends.append(...group.ends.map((text) => element("span", text)));
      legend.append(bar, ends);
    }
    const ordered = [...groups.entries()].sort(([, one], [, other]) => (one.last ?? 0) - (other.last ?? 0));
    const boxes = ordered.filter(([, group]) => !group.ends).map(([index, group]) => box(group, index));
    const list = element("div", "", "classes");
    list.append(...boxes.map((one) => one.parentElement));
    legend.append(list);
    if (boxes.length > 1) {
      const buttons = element("div", "", "all");
      buttons.append(...[["All", true], ["None", false]].map(([text, on]) => {
        const button = element("button", text);
        button.addEventListener("click", () => {
          for (const one of boxes) one.checked = on;
          show(boxes);
        });
        return button;
      }));
      legend.append(buttons);
    }
  }

  // The box that switches a group on and off, in its label.
  function box(group, index) {
    const made = element("input");
    made.type = "checkbox";
    made.checked = true;
    made.value = index;
    made.addEventListener("change", () => show([made]));
    const swatch = element("span", group.symbol[1], "swatch");
    swatch.style.color = group.colour;
    const [name, count] = [element("span", shortened(group.name), "name"), element("span", group.rows.length, "count")];
    element("label").append(made, swatch, name, count);
    return made;
  }

  function show(boxes) {
    Plotly.restyle(plot, { visible: boxes.map((one) => one.checked) }, boxes.map((one) => Number(one.value)));
  }

  // A table of a row's cells: all of them, or the first ones in short.
  function cells(row, whole) {
    const table = element("table");
    const most = whole ? columns.length : MOST_COLUMNS;
    for (const column of columns.slice(0, most)) {
      const line = table.insertRow();
      line.append(element("th", shortened(column.name, whole ? MOST_LETTERS_WHOLE : MOST_LETTERS)), element("td", cell(column, row, whole)));
    }
    const more = columns.length - most;
    if (more > 0) table.insertRow().append(element("th", "…"), element("td", `${more} more columns`));
    return table;
  }

  function choose(row) {
    chosen = [row];
    neighbours = nearest(row);
    const list = element("ol");
    for (const [other, distance] of neighbours) {
      const button = element("button");
      button.append(
        element("span", shortened(rowName(other)), "name"),
        element("span", label ? cell(label, other) : "", "label"),
        element("span", distance.toPrecision(4), "distance"),
      );
      button.addEventListener("click", () => {
        choose(other);
        document.querySelector("#row h2").focus();
      });
      list.append(element("li"));
      list.lastChild.append(button);
    }
    const heading = element("h2", `Row ${shortened(rowName(row), MOST_LETTERS_WHOLE)}`);
    heading.tabIndex = -1; // so that the keyboard stays here when the list is made anew
    const what = element("p", "Nearest neighbours and their distance:");
    document.getElementById("row").replaceChildren(heading, what, list, cells(row, true));
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
    const found = document.getElementById("found");
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
    tip.replaceChildren(element("strong", shortened(rowName(row))), cells(row, false));
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

  const options = columns.map((column, index) => [column, index]);
  if (!label) options.unshift([{ name: "nothing" }, -1]);
  for (const [column, index] of options) colour.add(new Option(shortened(column.name), index));
  colour.addEventListener("change", recolour);
  document.getElementById("search").addEventListener("submit", (event) => {
    event.preventDefault();
    find(document.getElementById("wanted").value.trim());
  });
  plot.addEventListener("mousemove", (event) => {
    [pointer.x, pointer.y] = [event.clientX, event.clientY];
    if (!tip.hidden) place();
  }, true);
  plot.addEventListener("mouseleave", leave);
  recolour();
  plot.on("plotly_hover", (event) => hover(rowOf(event)));
  plot.on("plotly_unhover", leave);
  if (solid) {
    // Here plotly tells of clicks only very close to a point, but a click means what the tip shows. A drag is no click.
    let pressed = {};
    plot.addEventListener("mousedown", (event) => { pressed = { row: hovered, x: event.clientX, y: event.clientY }; }, true);
    plot.addEventListener("click", ({ target, clientX, clientY }) => {
      const still = Math.hypot(clientX - pressed.x, clientY - pressed.y) < 4;
      if (still && pressed.row !== null && !target.closest(".modebar")) choose(pressed.row);
    });
  } else {
    plot.on("plotly_click", (event) => choose(rowOf(event)));
  }
})();

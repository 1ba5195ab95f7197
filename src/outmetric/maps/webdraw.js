// The map: a trace for each group of rows that look alike, the names of classes above it, the legend beside it.
// How plotly calls a mark, and a letter that looks like it. These are the filled ones that 2-D and 3-D have in common.
const SYMBOLS = [["circle", "●"], ["square", "■"], ["diamond", "◆"]];
// Drawn below the classes, and listed after them.
const OTHER = { colour: "#cccccc", symbol: ["circle", "●"], last: 1 };
const MISSING = { colour: "#999999", symbol: ["circle-open", "○"], last: 2 };
// Drawn above all others.
const ADDED = { symbol: ["x", "✕"], last: 3, larger: 3 };
const MOST_LETTERS_OF_NAME = 24;
// A class of fewer points has no island that could be named.
const LEAST_OF_ISLAND = 3;
// Of a colour on dark paper: more than three times the contrast of none (WCAG).
const LEAST_LIGHT = 0.16;

const solid = axes.length === 3;
const type = solid ? "scatter3d" : "scattergl";
const plot = byId("plot");
// Of points: less where they are many, or the window is narrow.
const size = Math.min(8, Math.max(3, 14 - 2.4 * Math.log10(known))) * (solid || plot.clientWidth < 500 ? 0.7 : 1);
const legend = byId("legend");
const colour = byId("colour");
const darkness = window.matchMedia("(prefers-color-scheme: dark)");
let groups = []; // of rows that look alike; one trace each, before the traces of the marks
let off = new Set(); // names of groups that are switched off
let hidden = new Uint8Array(rows); // 1 for rows that a filter holds back
let picked = new Set(); // rows that the lasso, or a button, has chosen for export
let islands = []; // names on the map, with their places and sizes

function theme() {
  return darkness.matches
    ? { ink: "#f2f2f2", paper: "#1b1e22", grid: "#3a3f46", ray: "#aaaaaa" }
    : { ink: "#111111", paper: "#ffffff", grid: "#e3e3e3", ray: "#555555" };
}

// Colours of classes are made for white paper; on dark paper they are mixed with white until they can be told from it.
function shade(hex) {
  if (!darkness.matches || typeof hex !== "string") return hex;
  const parts = [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
  const mixed = (share) => parts.map((part) => Math.round(part + share * (255 - part)));
  const light = ([red, green, blue]) => 0.2126 * (red / 255) ** 2.2 + 0.7152 * (green / 255) ** 2.2 + 0.0722 * (blue / 255) ** 2.2;
  let share = 0.2;
  while (light(mixed(share)) < LEAST_LIGHT) share += 0.1;
  return `#${mixed(share).map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

// Rows with the same look, in the order of drawing: a group for each text, or one with a colour for each number.
function grouped(column) {
  const shown = (row) => !hidden[row];
  const all = Int32Array.from({ length: known }, (_, row) => row);
  const added = { name: "new rows", count: rows - known, rows: rowsWhere(known, rows, shown), colour: theme().ink, ...ADDED };
  if (!column) {
    const everything = { name: "rows", count: known, rows: all.filter(shown), colour: data.colours[0], symbol: SYMBOLS[0] };
    return [everything, added].filter((group) => group.count);
  }
  const colourless = (row) => isMissing(column, row) || column.values[row] === Infinity || column.values[row] === -Infinity;
  const members = all.filter((row) => !colourless(row));
  const found = column.kind === "text" ? classes(column, members) : [range(column, members)];
  const missing = all.filter(colourless);
  const rest = { name: "missing", count: missing.length, rows: missing.filter(shown), ...MISSING };
  return [rest, ...found, added].filter((group) => group.count);
}

// Only the most frequent texts have a colour of their own; the colours repeat with other marks.
function classes(column, all) {
  const counts = new Uint32Array(column.texts.length);
  for (const row of all) counts[column.values[row]] += 1;
  const codes = column.texts.map((_, code) => code).filter((code) => counts[code]);
  const frequent = [...codes].sort((a, b) => counts[b] - counts[a] || a - b).slice(0, MOST_CLASSES - 1);
  const kept = codes.length > MOST_CLASSES ? frequent.sort((a, b) => a - b) : codes;
  const place = new Map(kept.map((code, index) => [code, index]));
  const members = kept.map(() => []);
  const rest = [];
  for (const row of all) if (!hidden[row]) (members[place.get(column.values[row])] ?? rest).push(row);
  const found = kept.map((code, index) => ({
    name: column.texts[code],
    count: counts[code],
    rows: members[index],
    colour: data.colours[index % data.colours.length],
    symbol: SYMBOLS[Math.floor(index / data.colours.length)],
  }));
  const others = all.length - found.reduce((sum, { count }) => sum + count, 0);
  return [{ name: `other (${codes.length - kept.length} values)`, count: others, rows: rest, ...OTHER }, ...found];
}

// The colours reach from the first to the last percentile, so that a few outliers do not take them all.
function range(column, members) {
  const sorted = gather(column.values, members).sort();
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))] ?? NaN;
  const [low, high] = at(0.01) < at(0.99) ? [at(0.01), at(0.99)] : [at(0), at(1)];
  const [first, last] = [numberText(column, low), numberText(column, high)];
  const ends = [at(0) < low ? `≤ ${first}` : first, at(1) > high ? `≥ ${last}` : last];
  const shown = members.filter((row) => !hidden[row]);
  return { count: members.length, rows: shown, symbol: SYMBOLS[0], colour: gather(column.values, shown), low, high, ends };
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
    visible: !off.has(group.name),
    selectedpoints: pickedPlaces(group),
    unselected: { marker: { opacity: 0.12 } },
    marker: {
      size: size + (group.larger ?? 0),
      color: shade(group.colour),
      symbol: group.symbol[0],
      opacity: solid ? 1 : 0.8,
      line: group.larger ? { width: 1, color: theme().paper } : { width: 0 },
      ...(group.ends && { colorscale: data.scale, cmin: group.low, cmax: group.high, showscale: false }),
    },
  };
}

// Which points of a group are picked; null if nothing is, so that all look alike.
function pickedPlaces(group) {
  if (!picked.size || solid) return null;
  return [...group.rows.keys()].filter((place) => picked.has(group.rows[place]));
}

// Lines from the chosen row to its neighbours, rings around these, and a dot on the row itself.
function marks() {
  const { ink, paper, ray } = theme();
  const near = neighbours.map(([row]) => row);
  const look = { type, hoverinfo: "skip", connectgaps: false, unselected: { marker: { opacity: 1 } } };
  const round = (symbol, edge) => ({ symbol, size: size + 4, color: ink, line: { width: 1.5, color: edge } });
  const rays = points(near.flatMap((row) => [...chosen, row, -1])); // row -1 has no coordinates: a gap
  return [
    { ...look, ...rays, mode: "lines", line: { color: ray, width: 1 } },
    { ...look, ...points(near), mode: "markers", marker: round("circle-open", ink) },
    { ...look, ...points(chosen), mode: "markers", marker: round("circle", paper) },
  ];
}

// An arrow to the chosen row of a 3-D map, where other rows may hide it.
function arrows() {
  return chosen.map((row) => {
    const [x, y, z] = axes.map((axis) => axis[row]);
    return { x, y, z, text: "", ax: 40, ay: -50, arrowhead: 2, arrowwidth: 2, arrowcolor: theme().ink };
  });
}

function layout() {
  const { ink, paper, grid, ray } = theme();
  // Fixed ranges: the map stays where it is when classes come and go.
  const axis = (index) => {
    const low = axes[index].reduce((one, other) => Math.min(one, other));
    const high = axes[index].reduce((one, other) => Math.max(one, other));
    const margin = 0.05 * (high - low) || 1;
    // Axes of a layout have no meaning.
    const named = data.height === "place" ? { title: { text: "" }, showticklabels: false } : { title: { text: `component ${index + 1}` } };
    return { ...named, range: [low - margin, high + margin], zeroline: false, showspikes: false, gridcolor: grid, linecolor: grid };
  };
  const common = { showlegend: false, hovermode: "closest", paper_bgcolor: paper, plot_bgcolor: paper, font: { color: ink } };
  common.modebar = { color: ray, activecolor: ink, bgcolor: "rgba(0, 0, 0, 0)" };
  if (solid) {
    const camera = { eye: { x: 1.4, y: 1.4, z: 0.9 }, center: { x: 0, y: 0, z: -0.1 } };
    const [xaxis, yaxis, zaxis] = [axis(0), axis(1), axis(2)];
    // One scale for all axes, since distances matter; the longest just fits.
    const [x, y, z] = [xaxis, yaxis, zaxis].map(({ range: [low, high] }) => high - low);
    const unit = Math.max(x, y, z) / 1.25;
    const aspectratio = { x: x / unit, y: y / unit, z: z / unit };
    const scene = { xaxis, yaxis, zaxis, aspectmode: "manual", aspectratio, camera, annotations: arrows() };
    return { ...common, scene, margin: { l: 0, r: 0, t: 0, b: 0 } };
  }
  // With one component the height is the target, or only keeps points apart.
  const upright = {
    component: { scaleanchor: "x" },
    place: { scaleanchor: "x" },
    target: { title: { text: "target" } },
    nothing: { title: { text: "" }, showticklabels: false, showgrid: false },
  }[data.height];
  const yaxis = { ...axis(1), ...upright };
  const margin = data.height === "place" ? { l: 10, r: 10, t: 30, b: 10 } : { l: 60, r: 15, t: 30, b: 50 };
  return { ...common, dragmode: "pan", xaxis: axis(0), yaxis, margin };
}

// Buttons are listed, because plotly's own choice may include one that sends the data away.
function config() {
  const buttons = solid
    ? [["toImage"], ["orbitRotation", "pan3d", "zoom3d"], ["resetCameraDefault3d"]]
    : [["toImage"], ["pan2d", "lasso2d", "select2d"], ["zoom2d", "zoomIn2d", "zoomOut2d"], ["resetScale2d"]];
  const looks = { scrollZoom: true, displayModeBar: true, displaylogo: false };
  return { ...looks, modeBarButtons: buttons, plotlyServerURL: "" };
}

// Draw everything anew; with a new layout where places or colours of the paper have changed.
function draw(fresh = false) {
  groups = grouped(columns[colour.value]);
  const drawn = fresh || !plot.layout ? layout() : plot.layout;
  if (fresh && plot.layout) drawn.dragmode = plot.layout.dragmode;
  Plotly.react(plot, [...groups.map(trace), ...marks()], drawn, config());
  nameIslands();
}

function recolour() {
  off = new Set();
  draw();
  writeLegend();
}

function writeLegend() {
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
    const buttons = element("div", "", "buttons");
    buttons.append(...[["All", true], ["None", false]].map(([text, on]) => button(text, () => {
      for (const one of boxes) one.checked = on;
      show(boxes);
    })));
    legend.append(buttons);
  }
}

// The box that switches a group on and off, in its label.
function box(group, index) {
  const made = element("input");
  made.type = "checkbox";
  made.checked = !off.has(group.name);
  made.value = index;
  made.addEventListener("change", () => show([made]));
  const swatch = element("span", group.symbol[1], "swatch");
  swatch.style.color = shade(group.colour);
  const [name, count] = [element("span", shortened(group.name), "name"), element("span", group.rows.length, "count")];
  name.dir = "auto";
  element("label").append(made, swatch, name, count);
  return made;
}

function show(boxes) {
  for (const one of boxes) {
    const { name } = groups[one.value];
    if (one.checked) off.delete(name);
    else off.add(name);
  }
  Plotly.restyle(plot, { visible: boxes.map((one) => one.checked) }, boxes.map((one) => Number(one.value)));
  nameIslands();
}

// Known rows that can be seen.
function visibleRows() {
  return groups.filter((group) => !off.has(group.name) && group.larger === undefined).flatMap((group) => [...group.rows]);
}

// The names of the most frequent classes at the medians of their visible points.
function nameIslands() {
  const layer = byId("names");
  layer.replaceChildren();
  islands = [];
  if (solid || label()?.kind !== "text" || !byId("named").checked) return;
  const members = new Map();
  for (const row of visibleRows()) {
    if (isMissing(label(), row)) continue;
    const code = label().values[row];
    if (!members.has(code)) members.set(code, []);
    members.get(code).push(row);
  }
  const large = [...members].filter(([, own]) => own.length >= LEAST_OF_ISLAND).sort(([, one], [, other]) => other.length - one.length);
  islands = large.slice(0, MOST_CLASSES).map(([code, own]) => {
    const [x, y] = axes.map((axis) => median(gather(axis, own)));
    const made = element("span", shortened(label().texts[code].slice(0, MOST_LETTERS).replace(/\s+/g, " "), MOST_LETTERS_OF_NAME));
    made.dir = "auto";
    layer.append(made);
    return { x, y, made, width: made.offsetWidth, height: made.offsetHeight };
  });
  placeIslands();
}

function median(values) {
  const sorted = values.sort();
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

// Put the names where the axes are now; one that would lie on another goes below it.
function placeIslands() {
  if (!islands.length) return;
  const { xaxis, yaxis } = plot._fullLayout;
  const layer = byId("names").style;
  [layer.left, layer.top] = [`${xaxis._offset}px`, `${yaxis._offset}px`];
  [layer.width, layer.height] = [`${xaxis._length}px`, `${yaxis._length}px`];
  const put = [];
  for (const { x, y, made, width, height } of islands) {
    const left = xaxis.l2p(x) - width / 2;
    let top = yaxis.l2p(y) - height / 2;
    const touches = (one) => Math.abs(one.top - top) < height - 0.5 && left < one.left + one.width && one.left < left + width;
    for (let other = put.find(touches); other; other = put.find(touches)) top = other.top + height;
    put.push({ left, top, width });
    made.style.transform = `translate(${left}px, ${top}px)`;
  }
}

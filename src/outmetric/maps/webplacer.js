// New rows from a CSV file: their coordinates by the model's formula, and their places among their nearest rows.
const MOST_NEW_ROWS = 20000;
const MOST_NEW_BYTES = 200e6;
const MOST_LISTED = 200;
const MOST_NAMES = 5;
// How many rows a new one is placed among.
const COMPANIONS = 10;
// Those whose places decide on a new row's, as in MetricMap.
const PLACED_BY = 7;
// Milliseconds of work before the page may breathe.
const BREATH = 50;
// Words for a missing value, as the library reads them (outmetric.tables).
const GAPS = new Set(["", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "?"]);
// Of a difference, a feature's share of a distance; of a sum of shares, the kernel's value.
const KERNELS = {
  rbf: [(x, z) => (x - z) * (x - z), (sum, rate) => Math.exp(-rate * sum)],
  exponential: [(x, z) => (x - z) * (x - z), (sum, rate) => Math.exp(-rate * Math.sqrt(sum))],
  laplacian: [(x, z) => Math.abs(x - z), (sum, rate) => Math.exp(-rate * sum)],
  linear: [(x, z) => x * z, (sum) => sum],
};

const placing = Boolean(data.placer && !data.placer.missing); // whether the page can

class Refusal extends Error {} // what is wrong with a file, for its owner

// The cells of a CSV file, line by line, with the number of the line each began in. Quotes may hold separators and line ends.
function* csvLines(text, separator) {
  let [cellText, inQuotes, wasQuoted, parts, line, began] = ["", false, false, [], 1, 1];
  const finished = () => {
    parts.push(wasQuoted ? cellText : cellText.trim());
    [cellText, wasQuoted] = ["", false];
  };
  for (let i = 0; i < text.length; i++) {
    const letter = text[i];
    if (letter === "\n") line += 1;
    if (inQuotes) {
      if (letter !== '"') cellText += letter;
      else if (text[i + 1] === '"') { cellText += letter; i += 1; }
      else inQuotes = false;
    } else if (letter === '"' && !cellText.trim() && !wasQuoted) {
      [cellText, inQuotes, wasQuoted] = ["", true, true];
    } else if (letter === separator) {
      finished();
    } else if (letter === "\n") {
      finished();
      if (parts.length > 1 || parts[0] !== "") yield [parts, began];
      [parts, began] = [[], line];
    } else if (letter !== "\r" || text[i + 1] !== "\n") {
      cellText += letter;
    }
  }
  if (inQuotes) throw new Refusal(`The quotes that begin in line ${began} do not end.`);
  finished();
  if (parts.length > 1 || parts[0] !== "") yield [parts, began];
}

// The separator that the first line has most of, outside of quotes.
function separatorOf(text) {
  const first = text.slice(0, text.search(/[\r\n]|$/)).replace(/"[^"]*"/g, "");
  const count = (mark) => first.split(mark).length;
  return [",", ";", "\t"].reduce((best, mark) => (count(mark) > count(best) ? mark : best));
}

// Columns by name, of all cells as texts, null for gaps; and the line of each row.
function readTable(text) {
  const lines = csvLines(text, separatorOf(text));
  const [names] = lines.next().value ?? [[]];
  if (!names.length) throw new Refusal("The file is empty; expected is a first line with the names of the columns.");
  const twice = names.find((name, place) => names.indexOf(name) !== place);
  if (twice !== undefined) throw new Refusal(`Two columns have the name "${shortened(twice)}".`);
  const table = { columns: new Map(names.map((name) => [name, []])), lines: [] };
  const lists = [...table.columns.values()];
  for (const [parts, line] of lines) {
    if (parts.length !== names.length) {
      throw new Refusal(`Line ${line} has ${counted(parts.length, "cell")}, and the first line ${names.length}.`);
    }
    if (table.lines.length === MOST_NEW_ROWS) throw new Refusal(`The file has more than ${MOST_NEW_ROWS} rows; take fewer.`);
    parts.forEach((part, place) => lists[place].push(GAPS.has(part) ? null : part));
    table.lines.push(line);
  }
  if (!table.lines.length) throw new Refusal("The file has no rows below the names of its columns.");
  return table;
}

// The model's features of all rows of a table, row by row in one array.
function featuresOf(model, table) {
  const absent = model.columns.filter((name) => !table.columns.has(name));
  if (absent.length) {
    throw new Refusal(`The file lacks ${counted(absent.length, "column")} of the model: ${listed(absent)}.`);
  }
  const width = model.features.length;
  const found = new Float64Array(table.lines.length * width);
  model.features.forEach(({ column, kind, fill, texts }, place) => {
    const name = model.columns[column];
    table.columns.get(name).forEach((text, row) => {
      const value = { number: () => numberOf(text, fill, name, table.lines[row]), gap: () => text === null, category: () => texts.includes(text) };
      found[row * width + place] = Number(value[kind]());
    });
  });
  return found;
}

// The first names, in quotes.
function listed(names) {
  const first = names.slice(0, MOST_NAMES).map((name) => `"${shortened(name, MOST_LETTERS_OF_REASON)}"`).join(", ");
  return names.length > MOST_NAMES ? `${first} and ${names.length - MOST_NAMES} more` : first;
}

function numberOf(text, fill, name, line) {
  const where = `Line ${line}, column "${shortened(name, MOST_LETTERS_OF_REASON)}":`;
  if (text === null && fill === null) throw new Refusal(`${where} there is no value, and the model knows no gaps.`);
  const value = text === null ? fill : parsedNumber(text);
  if (!Number.isFinite(value)) throw new Refusal(`${where} "${shortened(text, MOST_LETTERS_OF_REASON)}" is not a number.`);
  return value;
}

// One stage of preparation, in place: each feature scaled, or its level among the quantiles of the training rows.
function prepare({ centre, scale, quantiles, levels }, features, width) {
  for (let i = 0; i < features.length; i++) {
    const feature = i % width;
    features[i] = scale
      ? (features[i] - centre[feature]) * scale[feature]
      : levelOf(features[i], quantiles.subarray(feature * levels.length, (feature + 1) * levels.length), levels);
  }
}

// As scikit-learn's QuantileTransformer has it: the mean of the levels from below and from above, where quantiles repeat.
function levelOf(value, quantiles, levels) {
  const last = quantiles.length - 1;
  if (value <= quantiles[0]) return 0;
  if (value >= quantiles[last]) return 1;
  const below = quantiles.findLastIndex((one) => one <= value); // the last of those that are equal
  const above = quantiles.findIndex((one) => one >= value);
  if (quantiles[below] === value) return (levels[below] + levels[above]) / 2;
  const share = (value - quantiles[below]) / (quantiles[above] - quantiles[below]);
  return levels[below] + share * (levels[above] - levels[below]);
}

// A row, or all points, times a diagonal or a full matrix.
function transformed(values, matrix, width) {
  if (!matrix) return values;
  if (matrix.length === width) return values.map((value, i) => value * matrix[i % width]);
  const found = new Float64Array(values.length);
  for (let start = 0; start < values.length; start += width) {
    for (let i = 0; i < width; i++) {
      for (let j = 0; j < width; j++) found[start + j] += values[start + i] * matrix[i * width + j];
    }
  }
  return found;
}

// The model with its arrays unpacked, and its points as each kernel sees them.
function unpackedModel(packedModel) {
  const points = Float64Array.from(unpack(packedModel.points));
  const width = packedModel.features.length;
  const unpackAll = (stage) => Object.fromEntries(Object.entries(stage).map(([name, values]) => [name, unpack(values)]));
  const terms = packedModel.terms.map((term) => {
    const matrix = term.transform ? unpack(term.transform) : null;
    return { ...term, matrix, weights: unpack(term.weights), points: transformed(points, matrix, width) };
  });
  return { ...packedModel, stages: packedModel.stages.map(unpackAll), terms, offset: unpack(packedModel.offset), width };
}

// The coordinates of one prepared row: the sum over terms of k(x)' W, and the offset.
function coordinatesOf(model, row) {
  const found = Float64Array.from(model.offset);
  const { width } = model;
  for (const { kernel, rate, matrix, weights, points: own } of model.terms) {
    const [share, profile] = KERNELS[kernel];
    const x = transformed(row, matrix, width);
    for (let point = 0, start = 0; start < own.length; point++, start += width) {
      let sum = 0;
      for (let i = 0; i < width; i++) sum += share(x[i], own[start + i]);
      const value = profile(sum, rate);
      for (let k = 0; k < found.length; k++) found[k] += value * weights[point * found.length + k];
    }
  }
  return found;
}

// Weights of neighbours by their distances; those that coincide with the row take all.
function closeness(near) {
  const equal = near.some(([, distance]) => distance === 0);
  const shares = near.map(([, distance]) => (equal ? Number(distance === 0) : 1 / distance));
  const total = shares.reduce((sum, share) => sum + share);
  return near.map(([other], place) => [other, shares[place] / total]);
}

async function placeTable(table, say) {
  const model = unpackedModel(data.placer);
  const features = featuresOf(model, table);
  for (const stage of model.stages) prepare(stage, features, model.width);
  const count = table.lines.length;
  const lists = (like) => like?.map(() => new Float64Array(count));
  const found = { metric: lists(given.metric), unseen: lists(given.places.unseen), fitted: lists(given.places.fitted) };
  const names = namesOf(table);
  const likes = [];
  let breath = performance.now();
  for (let row = 0; row < count; row++) {
    const own = coordinatesOf(model, features.subarray(row * model.width, (row + 1) * model.width));
    found.metric.forEach((list, k) => { list[row] = own[k]; });
    const nearest = nearestTo(own, COMPANIONS);
    likes.push(likeOf(closeness(nearest)));
    for (const which of ["unseen", "fitted"]) {
      given.places[which]?.forEach((axis, k) => {
        // A map of the metric itself has a place for every coordinate. A mean would lie between islands.
        found[which][k][row] = data.metric ? median(nearest.slice(0, PLACED_BY).map(([other]) => axis[other])) : own[k];
      });
    }
    if (performance.now() - breath > BREATH) {
      say(`Placing ${row + 1} of ${counted(count)} …`);
      await new Promise((resolve) => { window.setTimeout(resolve); });
      breath = performance.now();
    }
  }
  addRows(names, found, found.metric, table.columns);
  return likes;
}

function median(numbers) {
  const sorted = numbers.sort((one, other) => one - other);
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2;
}

// New rows are called by a column "id", or counted.
function namesOf(table) {
  const column = [...table.columns.keys()].find((name) => name.toLowerCase() === "id" && !data.placer.columns.includes(name));
  return table.lines.map((_, row) => (column && table.columns.get(column)[row]) || `new ${row + 1}`);
}

// What the rows around have for a label, by their closeness: most of it, or their mean.
function likeOf(companions) {
  if (!label()) return "";
  const told = companions.filter(([other]) => !isMissing(label(), other));
  if (!told.length) return "";
  if (label().kind !== "text") {
    const total = told.reduce((sum, [, share]) => sum + share, 0);
    return numberText(label(), told.reduce((sum, [other, share]) => sum + share * label().values[other], 0) / total);
  }
  const votes = new Map();
  for (const [other, share] of told) votes.set(label().values[other], (votes.get(label().values[other]) ?? 0) + share);
  const [code] = [...votes].reduce((best, one) => (one[1] > best[1] ? one : best));
  return shortened(label().texts[code]);
}

// UTF-8, or what old spreadsheets write.
async function textOf(file) {
  if (file.size > MOST_NEW_BYTES) throw new Refusal(`The file has ${Math.round(file.size / 1e6)} MB; take less than ${MOST_NEW_BYTES / 1e6}.`);
  const bytes = await file.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

async function takeFile(file) {
  const [input, list] = [byId("file"), byId("added")];
  const say = (text) => { byId("placed").textContent = text; };
  byId("new").open = true;
  if (!placing || input.disabled) return; // the page says why not, or is busy with another file
  input.disabled = true;
  list.replaceChildren();
  try {
    say("Reading …");
    const likes = await placeTable(readTable(await textOf(file)), say);
    say(`${counted(likes.length)} placed${label() ? "; beside each what most of the rows around it are" : ""}:`);
    if (chosen[0] >= known) [chosen, neighbours] = [[], []];
    filter();
    list.append(...likes.slice(0, MOST_LISTED).map((like, row) => rowButton(known + row, element("span", like, "label"))));
    if (likes.length > MOST_LISTED) list.append(element("li", `and ${likes.length - MOST_LISTED} more, which can be found by their ids`));
  } catch (error) {
    say(error instanceof Refusal ? error.message : `The file cannot be read: ${error.message}`);
  } finally {
    input.disabled = false;
  }
}

// From a model's outputs to an answer, as stages.json declares it.
//
// Each function here has its twin of the same name in Modelyard's preparation in Python, and gives
// what that gives as JSON.

import { segments, series } from "./along.js";

const KINDS = { boxes, classes, embedding, keypoints, masks, numbers, regions, segments, series, text };

/** What the outputs of one file mean; all of them as lists, where nothing says it. */
export function answer(stages, outputs, seen) {
  const found = real(stages, outputs);
  const told = stages.answer.map((known) => KINDS[known.kind](known, found, seen));
  if (told.length) return Object.assign({}, ...told);
  return Object.fromEntries(Object.entries(found).map(([name, tensor]) => [name, nested(tensor.data, tensor.shape)]));
}

/** Outputs as the real numbers that they stand for. */
export function real(stages, outputs) {
  const stored = new Map(stages.stored.map((item) => [item.name, item]));
  return Object.fromEntries(Object.entries(outputs).map(([name, { dtype, shape, data }]) => {
    const said = stored.get(name);
    const plain = data instanceof BigInt64Array || data instanceof BigUint64Array ? Float64Array.from(data, Number) : data;
    const whole = said && said.scale !== null && !dtype.startsWith("float");
    return [name, { shape, data: whole ? Float64Array.from(plain, (v) => (v - said.zero_point) * said.scale) : plain }];
  }));
}

function nested(data, shape) {
  if (!shape.length) return data[0];
  const size = data.length / shape[0];
  return Array.from({ length: shape[0] }, (_, i) => {
    const part = data.subarray(i * size, (i + 1) * size);
    return shape.length === 1 ? part[0] : nested(part, shape.slice(1));
  });
}

// -- classes, numbers, vectors, texts -------------------------------------------------

/** The rows of a tensor's last axis. */
export function rowsOf({ data, shape }, width = shape.at(-1) ?? 1) {
  return Array.from({ length: width ? data.length / width : 0 }, (_, i) => data.subarray(i * width, (i + 1) * width));
}

/** Probabilities of a row of logits. */
export function activated(row, activation) {
  if (activation === "softmax") {
    const most = argmax(row)[1];
    const powers = Float64Array.from(row, (value) => Math.exp(value - most));
    const total = powers.reduce((a, b) => a + b, 0);
    return powers.map((value) => value / total);
  }
  return Float64Array.from(row, activation === "sigmoid" ? (value) => (1 + Math.tanh(value / 2)) / 2 : Number);
}

function argmax(row) {
  let best = 0;
  for (let i = 1; i < row.length; i++) if (row[i] > row[best]) best = i;
  return [best, row[best]];
}

function labelled(labels, index) {
  return index in labels ? { label: labels[index] } : {};
}

/** The numbers of the largest values, the largest first; of equal ones the first. */
function ordered(values) {
  return Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b);
}

function classes(known, outputs) {
  const found = rowsOf(outputs[known.output]).map((values) => {
    const row = activated(values, known.activation);
    return ordered(row).slice(0, known.top).map((index) => ({ index, score: row[index], ...labelled(known.labels, index) }));
  });
  return { classes: found.length === 1 ? found[0] : found };
}

function numbers(known, outputs) {
  const { data, shape } = outputs[known.output];
  const rows = rowsOf({ data }, shape.length ? data.length / shape[0] : 1);
  const names = known.names.length ? known.names : rows[0].length === 1 ? [known.output] : null;
  const found = rows.map((row) => (names ? Object.fromEntries(names.map((name, i) => [name, row[i]])) : [...row]));
  return { numbers: found.length === 1 ? found[0] : found, ...(known.unit ? { unit: known.unit } : {}) };
}

function embedding(known, outputs, seen) {
  const tensor = outputs[known.output];
  let row = Float64Array.from(tensor.data);
  if (known.pool !== "none") {
    const tokens = rowsOf(tensor);
    const mask = known.pool === "mean" && seen.feeds[known.mask]?.data;
    const counts = tokens.map((_, i) => (known.pool === "first" ? Number(i === 0) : mask ? Number(mask[i]) : 1));
    const total = counts.reduce((a, b) => a + b, 0);
    row = Float64Array.from(tokens[0], (_, i) => tokens.reduce((sum, token, t) => sum + token[i] * counts[t], 0) / total);
  }
  const length = known.normalize ? Math.max(Math.hypot(...row), 1e-12) : 1;
  return { embedding: Array.from(row, (value) => value / length) };
}

/** CTC's best path: repeats are one letter, blanks none. */
function text(known, outputs) {
  let path = outputs[known.output].data;
  let sure = known.scores && outputs[known.scores].data;
  if (!known.scores) {
    const rows = rowsOf(outputs[known.output]);
    const best = rows.map((row) => argmax(row)[0]);
    path = best.map((index, step) => (index === best[step - 1] || index === known.blank ? -1 : index));
    sure = rows.map((row) => argmax(activated(row, known.activation))[1]);
  }
  const said = Array.from(path.keys()).filter((step) => path[step] >= 0);
  const score = said.length ? said.reduce((sum, step) => sum + sure[step], 0) / said.length : 0;
  return { text: said.map((step) => known.letters[path[step]]).join(""), score };
}

// -- boxes, regions -------------------------------------------------------------------

/** What was found, in the picture's own pixels: x0, y0, x1, y1, the best first. */
function boxes(known, outputs, seen) {
  const kept = candidates(known, outputs)
    .filter((item) => item.score >= known.threshold)
    .map((item) => ({ ...item, box: corners(item.place, known, seen) }));
  const found = suppressed(kept, known.iou).slice(0, known.most).map(({ box, score, index }) => ({
    box: clipped(box, seen.size).map(hundredths), score, index, ...labelled(known.labels, index),
  }));
  return { boxes: found };
}

function candidates(known, outputs) {
  const tensor = outputs[known.output];
  const rows = known.transposed ? columns(tensor) : rowsOf(tensor);
  const scores = known.scores && rowsOf(outputs[known.scores], Math.max(1, outputs[known.scores].data.length / Math.max(rows.length, 1)));
  return rows.map((row, number) => {
    const place = row.subarray(0, 4);
    let rest = scores ? scores[number] : row.subarray(4);
    if (known.classes) return { place, score: rest[0], index: outputs[known.classes].data[number] };
    let factor = 1;
    if (known.objectness) [factor, rest] = [activated(rest.subarray(0, 1), known.activation)[0], rest.subarray(1)];
    if (known.activation) rest = activated(rest, known.activation);
    if (known.background) rest = rest.subarray(0, -1);
    const [index, best] = argmax(rest);
    return { place, score: best * factor, index };
  });
}

function columns({ data, shape }) {
  const [height, width] = shape.slice(-2);
  return Array.from({ length: width }, (_, x) => Float32Array.from({ length: height }, (_, y) => data[y * width + x]));
}

const CORNERS = {
  xyxy: (a, b, c, d) => [a, b, c, d],
  yxyx: (a, b, c, d) => [b, a, d, c],
  xywh: (a, b, c, d) => [a, b, a + c, b + d],
  cxcywh: (a, b, c, d) => [a - c / 2, b - d / 2, a + c / 2, b + d / 2],
};

function corners(place, known, seen) {
  const size = known.relative ? inputSize(seen) : [1, 1];
  return CORNERS[known.format](...place).map((value, i) => (value * size[i % 2] - seen.offset[i % 2]) / seen.scale[i % 2]);
}

/** Width and height of the model's picture. */
export function inputSize(seen) {
  const shape = Object.values(seen.feeds).find((tensor) => tensor.shape.length === 4)?.shape ?? [0, 1, 1, 1];
  return [1, 3, 4].includes(shape[3]) ? [shape[2], shape[1]] : [shape[3], shape[2]];
}

function clipped(box, size) {
  return box.map((value, i) => Math.min(Math.max(value, 0), size[i % 2]));
}

const hundredths = (value) => Math.round(value * 100) / 100;

/** Non-maximum suppression by class, the best first; all where there is no limit. */
function suppressed(found, iou) {
  let rest = ordered(found.map((item) => item.score)).map((number) => found[number]);
  if (iou === null) return rest;
  const kept = [];
  while (rest.length) {
    const [first, ...others] = rest;
    kept.push(first);
    rest = others.filter((item) => {
      const shared = area([0, 1, 2, 3].map((i) => (i < 2 ? Math.max : Math.min)(first.box[i], item.box[i])));
      return item.index !== first.index || shared <= iou * (area(first.box) + area(item.box) - shared);
    });
  }
  return kept;
}

const area = (box) => Math.max(box[2] - box[0], 0) * Math.max(box[3] - box[1], 0);

/** Upright boxes of what is probable, in reading order. */
function regions(known, outputs, seen) {
  const { data, shape } = outputs[known.output];
  const [rows, width] = shape.slice(-2);
  const sides = inputSize(seen);
  const steps = [sides[0] / width, sides[1] / rows];
  const told = [];
  for (const [top, left, bottom, right] of components(data, rows, width, known.threshold)) {
    const [wide, high] = [right - left, bottom - top];
    let score = 0;
    for (let y = top; y < bottom; y++) for (let x = left; x < right; x++) score += data[y * width + x];
    score /= wide * high;
    if (Math.min(wide, high) < known.least || score < known.score) continue;
    const more = (known.grow * wide * high) / (2 * (wide + high));
    const box = [left - more, top - more, right + more, bottom + more]
      .map((value, i) => (value * steps[i % 2] - seen.offset[i % 2]) / seen.scale[i % 2]);
    told.push({ box: clipped(box, seen.size).map(hundredths), score });
  }
  return { boxes: inReadingOrder(told).slice(0, known.most) };
}

/** The bounds of each region of 8-connected pixels: top, left, bottom, right, the last exclusive. */
function components(data, rows, width, threshold) {
  const seen = new Uint8Array(data.length);
  const found = [];
  for (let start = 0; start < rows * width; start++) {
    if (seen[start] || data[start] < threshold) continue;
    const bounds = [rows, width, 0, 0];
    const open = [start];
    seen[start] = 1;
    while (open.length) {
      const at = open.pop();
      const [y, x] = [Math.floor(at / width), at % width];
      bounds[0] = Math.min(bounds[0], y);
      bounds[1] = Math.min(bounds[1], x);
      bounds[2] = Math.max(bounds[2], y + 1);
      bounds[3] = Math.max(bounds[3], x + 1);
      for (let b = Math.max(0, y - 1); b <= Math.min(rows - 1, y + 1); b++) {
        for (let a = Math.max(0, x - 1); a <= Math.min(width - 1, x + 1); a++) {
          const next = b * width + a;
          if (!seen[next] && data[next] >= threshold) open.push(next), (seen[next] = 1);
        }
      }
    }
    found.push(bounds);
  }
  return found;
}

/** Boxes by lines, from the left: one belongs to a line whose middle it spans. */
function inReadingOrder(found) {
  const lines = [];
  for (const item of [...found].sort((a, b) => a.box[1] - b.box[1] || a.box[0] - b.box[0])) {
    const middle = (item.box[1] + item.box[3]) / 2;
    const last = lines.at(-1)?.at(-1).box;
    if (last && last[1] <= middle && middle <= last[3]) lines.at(-1).push(item);
    else lines.push([item]);
  }
  return lines.flatMap((line) => line.sort((a, b) => a.box[0] - b.box[0]));
}

// -- masks, keypoints -----------------------------------------------------------------

/** Each pixel's class, in the picture's size, as `pixels`; and each class's share. */
function masks(known, outputs, seen) {
  const { data, shape } = outputs[known.output];
  const size = shape.length < 4 ? shape.slice(-2) : known.channels_last ? shape.slice(1, 3) : shape.slice(2);
  const classAt = shape.length < 4 ? (at) => data[at] : best(data, shape, known.channels_last);
  const places = [0, 1].map((axis) => {
    const steps = size[1 - axis];
    const side = inputSize(seen)[axis];
    return Array.from({ length: seen.size[axis] }, (_, i) => {
      const at = (((i + 0.5) * seen.scale[axis] + seen.offset[axis]) * steps) / side;
      return Math.min(Math.max(Math.floor(at), 0), steps - 1);
    });
  });
  const pixels = new Uint8Array(seen.size[0] * seen.size[1]);
  const counts = new Map();
  places[1].forEach((y, row) => places[0].forEach((x, column) => {
    const index = classAt(y * size[1] + x);
    pixels[row * seen.size[0] + column] = index;
    counts.set(index, (counts.get(index) ?? 0) + 1);
  }));
  const told = [...counts].sort((a, b) => a[0] - b[0]).map(([index, count]) => ({
    index, share: count / pixels.length, ...labelled(known.labels, index),
  }));
  const made = { width: seen.size[0], height: seen.size[1], classes: told };
  return { masks: Object.defineProperty(made, "pixels", { value: pixels }) };
}

function best(data, shape, last) {
  const count = shape[last ? 3 : 1];
  const [across, along] = last ? [count, 1] : [1, data.length / count];
  return (at) => {
    let found = 0;
    for (let i = 1; i < count; i++) if (data[at * across + i * along] > data[at * across + found * along]) found = i;
    return found;
  };
}

/** Points in the picture's own pixels, by their names where they have some. */
function keypoints(known, outputs, seen) {
  const size = known.relative ? inputSize(seen) : [1, 1];
  const found = rowsOf(outputs[known.output]).flatMap((row, number) => {
    const score = row.length > 2 ? { score: row[2] } : {};
    if ((score.score ?? known.threshold) < known.threshold) return [];
    const point = known.order === "yx" ? [row[1], row[0]] : [row[0], row[1]];
    const [x, y] = point.map((value, i) => hundredths((value * size[i] - seen.offset[i]) / seen.scale[i]));
    return [{ ...(number in known.names ? { name: known.names[number] } : {}), x, y, ...score }];
  });
  return { keypoints: found };
}

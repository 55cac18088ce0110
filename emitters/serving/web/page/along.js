// Answers along a sound: values and segments.

import { activated } from "./answers.js";

/** Values along a sound: windows joined, what they share cut off. */
export function series(known, outputs, seen) {
  const rows = alongSound(known, outputs[known.output], seen);
  const values = rows.map((row) => (row.length === 1 ? row[0] : [...row]));
  return { [known.name]: { rate: known.rate, ...(known.names.length ? { names: known.names } : {}), values } };
}

function alongSound(known, { data, shape }, seen) {
  const width = known.names?.length || (shape.length > 2 ? shape.at(-1) : 1);
  const size = shape.length > 2 ? shape[1] * shape[2] : data.length;
  const cut = shape.length > 2 ? known.trim * shape[2] : 0;
  const rows = [];
  for (let start = 0; start < data.length; start += size) {
    for (let at = start + cut; at + width <= start + size - cut; at += width) rows.push(data.subarray(at, at + width));
  }
  return rows.slice(0, Math.ceil(seen.seconds * known.rate) || undefined);
}

/** Where a probability is high: from and to, in seconds, and its mean there. */
export function segments(known, outputs, seen) {
  const rows = alongSound(known, outputs[known.output], seen).map((row) => activated(row, known.activation));
  const values = rows.map((row) => row[Math.min(known.column, row.length - 1)]);
  const end = seen.seconds || values.length / known.rate;
  const found = spans(values, known, end * known.rate);
  const times = padded(found.map(([a, b]) => [a / known.rate, Math.min(b / known.rate, end)]), known.pad, end);
  return { segments: times.map(([start, stop], i) => {
    const part = values.slice(...found[i]);
    const score = part.reduce((a, b) => a + b, 0) / part.length;
    return { start: round(start), end: round(stop), score };
  }) };
}

const round = (value) => Math.round(value * 1e4) / 1e4;

const BREATH = 0.098; // seconds of a pause in which a segment that is too long may be cut (Silero's value)

/** The steps of each segment, the last exclusive, without `pad`. */
function spans(values, known, length) {
  const { rate, threshold } = known;
  const low = known.release ?? Math.max(threshold - 0.15, 0.01);
  const most = known.longest === null ? Infinity : (known.longest - 2 * known.pad) * rate - 1;
  const found = [];
  let [start, quiet, pauses] = [-1, -1, []];
  values.forEach((value, step) => {
    if (value >= threshold && quiet >= 0) [pauses, quiet] = [[...pauses, [quiet, step]], -1];
    if (value >= threshold && start < 0) {
      start = step;
    } else if (start >= 0 && step - start > most) {
      const wide = pauses.filter(([a, b]) => b - a > BREATH * rate);
      const [cut, after] = wide.reduce((best, pause) => (!best || pause[1] - pause[0] > best[1] - best[0] ? pause : best), null) ?? [step, -1];
      found.push([start, cut]);
      [start, quiet, pauses] = [after, -1, []];
    }
    if (value >= low || start < 0) return;
    quiet = quiet < 0 ? step : quiet;
    if (step - quiet < known.pause * rate) return;
    if (quiet - start > known.least * rate) found.push([start, quiet]);
    [start, quiet, pauses] = [-1, -1, []];
  });
  if (start >= 0 && length - start > known.least * rate) found.push([start, values.length]);
  return found;
}

/** Segments in seconds, longer by `pad` at each end as far as there is room. */
function padded(found, pad, end) {
  return found.map(([start, stop], i) => {
    const before = i ? (start - found[i - 1][1]) / 2 : start;
    const after = i + 1 < found.length ? (found[i + 1][0] - stop) / 2 : end - stop;
    return [start - Math.min(pad, before), stop + Math.min(pad, after)];
  });
}

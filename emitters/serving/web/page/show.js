// Shows an answer: the picture with what was found in it, lists, values along a sound.

const MOST = 1280; // pixels of a drawn picture's longer side
const COLORS = ["#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#808000", "#e000e0", "#1e90ff"];

/** Shows an answer in an element; of a sound's file, with what plays it. */
export function show(place, answer, seen, file) {
  const parts = [];
  if (seen.bitmap) parts.push(drawn(answer, seen));
  if (file?.type.startsWith("audio/")) parts.push(player(file));
  for (const [kind, value] of Object.entries(answer)) {
    parts.push(...(SHOWN[kind] ?? other)(value, kind));
  }
  const old = place.querySelector("audio");
  if (old) URL.revokeObjectURL(old.src);
  place.replaceChildren(...parts);
}

const SHOWN = {
  classes: (found) => [bars(Array.isArray(found[0]) ? found[0] : found)],
  boxes: (found) => found.length
    ? [table(["", "Score", "Left, top, right, bottom"], found.map((item) => [name(item), percent(item.score), item.box.map(Math.round).join(", ")]))]
    : [line("Nothing was found.")],
  text: (found) => [Object.assign(document.createElement("blockquote"), { textContent: found || "No text was found." })],
  score: (found) => [line(`Score: ${percent(found)}`)],
  segments: (found) => found.length
    ? [table(["From", "To", "Score"], found.map((item) => [`${item.start.toFixed(2)} s`, `${item.end.toFixed(2)} s`, percent(item.score)]))]
    : [line("Nothing was found.")],
  masks: (found) => [table(["Class", "Share"], found.classes.map((item) => [name(item), percent(item.share)]))],
  keypoints: (found) => [table(["Point", "x", "y"], found.map((item, i) => [item.name ?? i + 1, item.x.toFixed(1), item.y.toFixed(1)]))],
  embedding: (found) => [line(`A vector of ${found.length} values: ${found.slice(0, 6).map((v) => v.toFixed(4)).join(", ")}, ...`)],
};

/** Numbers, values along a sound, and outputs that nothing is declared of. */
function other(value, kind) {
  if (value?.values) return [heading(kind), chart(value.values)];
  if (value !== null && typeof value === "object" && !Array.isArray(value)) return [table(["", "Value"], Object.entries(value))];
  const flat = [value].flat(Infinity);
  return [line(`${kind}: ${flat.slice(0, 8).join(", ")}${flat.length > 8 ? `, ... (${flat.length} values)` : ""}`)];
}

const made = (tag, facts = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), facts);
  element.append(...children);
  return element;
};

const line = (text) => made("p", { textContent: text });
const heading = (text) => made("h3", { textContent: text });
const name = (item) => item.label ?? (item.index === undefined ? "" : `class ${item.index}`);
const percent = (score) => `${(score * 100).toFixed(1)} %`;

/** A table; columns after the first are numbers. */
export function table(head, rows) {
  const cells = (tag, row) => made("tr", {}, ...row.map((text) => made(tag, { textContent: text, ...(tag === "th" ? { scope: "col" } : {}) })));
  return made("table", {}, made("thead", {}, cells("th", head)), made("tbody", {}, ...rows.map((row) => cells("td", row))));
}

function bars(found) {
  const probable = found.every((item) => item.score >= 0 && item.score <= 1);
  return made("ol", { className: "bars" }, ...found.map((item) => {
    const bar = made("span", { className: "bar", ariaHidden: "true" });
    bar.style.width = probable ? `${item.score * 100}%` : "0";
    return made("li", {}, made("span", { textContent: name(item) }),
      made("span", { className: "score", textContent: probable ? percent(item.score) : item.score.toFixed(3) }), bar);
  }));
}

function player(file) {
  return made("audio", { controls: true, src: URL.createObjectURL(file) });
}

/** The picture with boxes, points and masks. */
function drawn(answer, seen) {
  const [width, height] = seen.size;
  const ratio = Math.min(1, MOST / Math.max(width, height));
  const canvas = made("canvas", { width: Math.round(width * ratio), height: Math.round(height * ratio) });
  const context = canvas.getContext("2d");
  context.drawImage(seen.bitmap, 0, 0, canvas.width, canvas.height);
  if (answer.masks) context.drawImage(overlay(answer.masks), 0, 0, canvas.width, canvas.height);
  const unit = Math.max(canvas.width, canvas.height) / 320;
  context.lineWidth = Math.max(2, unit);
  context.font = `${Math.max(12, 9 * unit)}px system-ui, sans-serif`;
  context.textBaseline = "top";
  answer.boxes?.forEach((item) => box(context, item, ratio, unit));
  answer.keypoints?.forEach((item) => {
    context.fillStyle = COLORS[0];
    context.beginPath();
    context.arc(item.x * ratio, item.y * ratio, Math.max(2, unit), 0, 2 * Math.PI);
    context.fill();
  });
  const count = (answer.boxes ?? answer.keypoints)?.length;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", count === undefined ? "The picture" : `The picture, with ${count} found`);
  return made("figure", {}, canvas);
}

function box(context, item, ratio, unit) {
  const [left, top, right, bottom] = item.box.map((value) => value * ratio);
  const color = COLORS[Math.max(0, item.index ?? 0) % COLORS.length];
  const text = `${name(item)} ${percent(item.score)}`.trim();
  const high = Math.max(12, 9 * unit) + 4;
  context.strokeStyle = context.fillStyle = color;
  context.strokeRect(left, top, right - left, bottom - top);
  const y = top >= high ? top - high : top;
  context.fillRect(left, y, context.measureText(text).width + 8, high);
  context.fillStyle = "#fff";
  context.fillText(text, left + 4, y + 2);
}

/** A mask's classes in colours; the first class, mostly the background, is clear. */
function overlay({ width, height, pixels }) {
  const canvas = new OffscreenCanvas(width, height);
  const image = new ImageData(width, height);
  pixels.forEach((index, i) => {
    if (!index) return;
    const color = parseInt(COLORS[index % COLORS.length].slice(1), 16);
    image.data.set([color >> 16, (color >> 8) & 255, color & 255, 140], 4 * i);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Values along a sound: one line, or of several values in each step a picture. */
function chart(values) {
  const several = Array.isArray(values[0]);
  const canvas = made("canvas", { width: Math.max(1, values.length), height: several ? values[0].length : 80, className: "chart" });
  const context = canvas.getContext("2d");
  context.fillStyle = COLORS[2];
  values.forEach((value, x) => {
    if (!several) return context.fillRect(x, 80 * (1 - value), 1, 80 * value);
    return value.forEach((one, y) => {
      context.globalAlpha = Math.min(Math.max(one, 0), 1);
      context.fillRect(x, value.length - 1 - y, 1, 1);
    });
  });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${values.length} steps`);
  return made("figure", {}, canvas);
}

/** A sample's picture, from its tensor; nothing where it is none. */
export function pictureOf(stages, feeds) {
  const known = stages.prepare.find((item) => item.kind === "picture");
  const tensor = known && feeds[known.input];
  if (tensor?.shape.length !== 4) return {};
  const said = stages.stored.find((item) => item.name === known.input);
  const whole = said?.scale != null && !tensor.dtype.startsWith("float");
  const first = known.layout === "CHW";
  const [depth, height, width] = first ? tensor.shape.slice(1) : [tensor.shape[3], tensor.shape[1], tensor.shape[2]];
  const order = known.color === "bgr" ? [2, 1, 0] : [0, 1, 2];
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    image.data[4 * i + 3] = 255;
    for (let color = 0; color < 3; color++) {
      const channel = depth === 1 ? 0 : order[color];
      const stored = tensor.data[first ? channel * width * height + i : i * depth + channel];
      const value = whole ? (stored - said.zero_point) * said.scale : stored;
      image.data[4 * i + color] = Math.round((value * known.std[channel] + known.mean[channel]) / known.scale);
    }
  }
  const bitmap = new OffscreenCanvas(width, height);
  bitmap.getContext("2d").putImageData(image, 0, 0);
  return { bitmap, size: [width, height] };
}

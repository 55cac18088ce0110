// From a user's file to a model's inputs, as stages.json declares it.
//
// Each function here has its twin of the same name in Modelyard's preparation in Python.
// A tensor is {dtype, shape, data}, and data is a typed array.

import { bins, framed, mono, normalized } from "./sounds.js";

/** A file that can't be prepared; the message is for whoever chose it. */
export class Refused extends Error {}

const ARRAYS = {
  bool: Uint8Array, float32: Float32Array, float64: Float64Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
};

const SUPPORT = { bilinear: 1, bicubic: 2, lanczos: 3 };
const BITS = 22; // of a weight's fraction: Pillow computes in integers

/**
 * A file as the model's inputs.
 * @param {object} stages What stages.json says.
 * @param {File} file
 * @returns {Promise<{feeds: object, seen: object}>} Tensors by name, with the batch first, and
 *   what the answer needs: size, scale, offset, seconds, and for a picture its bitmap.
 */
export async function prepare(stages, file) {
  if (file.size > stages.limits.bytes) {
    throw new Refused(`${file.name} has ${file.size} bytes; the limit is ${stages.limits.bytes}`);
  }
  const readers = { picture, sound };
  const known = stages.prepare.filter((item) => item.kind in readers);
  const own = known.find((item) => file.type.startsWith(TYPES[item.kind])) ?? known[0];
  const { feeds, seen } = await readers[own.kind](own, file, stages.limits);
  for (const item of stages.prepare) {
    if (item.kind === "constant" || item.kind === "state") {
      feeds[item.input] = filled(item.dtype, item.shape, item.value);
    }
  }
  const stored = new Map(stages.stored.map((item) => [item.name, item]));
  for (const name of Object.keys(feeds)) feeds[name] = asStored(feeds[name], stored.get(name));
  return { feeds, seen: { ...seen, feeds } };
}

const TYPES = { picture: "image/", sound: "audio/" };

function filled(dtype, shape, value) {
  const data = new ARRAYS[dtype](shape.reduce((a, b) => a * b, 1));
  return { dtype, shape, data: data.fill(dtype.endsWith("64") && dtype !== "float64" ? BigInt(value) : value) };
}

/** A tensor in the type of the artifact's own input. */
export function asStored(tensor, said) {
  if (!said || said.dtype === tensor.dtype) return tensor;
  let { data } = tensor;
  if (said.scale !== null && tensor.dtype.startsWith("float")) {
    const scale = Math.fround(said.scale);
    const [low, high] = ends(said.dtype);
    data = Float32Array.from(data, (value) =>
      Math.min(high, Math.max(low, roundEven(Math.fround(value / scale)) + said.zero_point)));
  }
  const wide = said.dtype === "int64" || said.dtype === "uint64";
  return { dtype: said.dtype, shape: tensor.shape, data: ARRAYS[said.dtype].from(data, wide ? BigInt : Number) };
}

function ends(dtype) {
  const bits = Number(dtype.replace(/\D/g, ""));
  return dtype[0] === "u" ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1];
}

/** To the nearest integer, and of two to the even one, as Python and NumPy round. */
function roundEven(value) {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return rest < 0.5 ? floor : floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}

// -- pictures -------------------------------------------------------------------------

async function picture(known, file, limits) {
  const bitmap = await decoded(file, limits);
  const size = [bitmap.width, bitmap.height];
  const gray = known.color === "gray";
  const { pixels, seen } = framedPicture(channels(bitmap, gray, file.name), size, gray ? 1 : 3, known, file.name);
  return { feeds: { [known.input]: valued(known, pixels) }, seen: { ...seen, bitmap } };
}

async function decoded(file, limits) {
  refuseUnclear(new Uint8Array(await file.arrayBuffer()), file.name);
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, {
      imageOrientation: "from-image", premultiplyAlpha: "none", colorSpaceConversion: "none",
    });
  } catch {
    throw new Refused(`${file.name} can't be read: it is cut short, or not a picture that this browser knows`);
  }
  if (bitmap.width * bitmap.height > limits.pixels) {
    throw new Refused(`${file.name} has ${bitmap.width} x ${bitmap.height} pixels; the limit is ${limits.pixels}`);
  }
  return bitmap;
}

/** Refuses what a browser would silently make 8-bit RGB of: PNG of 16 bits, JPEG in CMYK. */
function refuseUnclear(bytes, name) {
  const view = new DataView(bytes.buffer);
  if (bytes.length > 25 && view.getUint32(0) === 0x89504e47 && bytes[24] === 16) {
    throw new Refused(`${name} has more than 8 bits a channel`);
  }
  if (bytes[0] !== 0xff || bytes[1] !== 0xd8) return;
  for (let at = 2; at + 9 < bytes.length && bytes[at] === 0xff; at += 2 + view.getUint16(at + 2)) {
    const frame = bytes[at + 1] >= 0xc0 && bytes[at + 1] <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(bytes[at + 1]);
    if (frame && bytes[at + 9] === 4) throw new Refused(`${name} is in the colour space CMYK`);
    if (frame) return;
  }
}

/** A bitmap's values, row by row: red, green and blue, or their grey by Pillow's weights. */
function channels(bitmap, gray, name) {
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
  const count = bitmap.width * bitmap.height;
  const made = new Uint8Array(count * (gray ? 1 : 3));
  for (let i = 0, at = 0; i < data.length; i += 4) {
    if (data[i + 3] !== 255) throw new Refused(`${name} has transparent pixels: put it on a background first`);
    if (gray) {
      made[at++] = (data[i] * 19595 + data[i + 1] * 38470 + data[i + 2] * 7471 + 0x8000) >> 16;
    } else {
      made[at++] = data[i];
      made[at++] = data[i + 1];
      made[at++] = data[i + 2];
    }
  }
  return made;
}

/** Pixels resized, and cut or filled up; where they came from. */
function framedPicture(source, size, depth, known, name) {
  const asked = [known.width ?? size[0], known.height ?? size[1]];
  const before = sizeToResize(size, known, asked);
  const pixels = resized(source, size, before, depth, known.interpolation);
  const scale = [before[0] / size[0], before[1] / size[1]];
  const wanted = [known.width ?? before[0], known.height ?? before[1]];
  const gaps = [0, 1].map((axis) => wanted[axis] - before[axis]);
  if (known.fill !== null) {
    const offset = gaps.map((gap) => roundEven(gap / 2 - 0.1));
    return { pixels: placed(pixels, before, wanted, offset, depth, known.fill), seen: { size, scale, offset } };
  }
  if (gaps[0] === 0 && gaps[1] === 0) {
    return { pixels: { data: pixels, size: wanted, depth }, seen: { size, scale, offset: [0, 0] } };
  }
  if (!known.crop || gaps[0] > 0 || gaps[1] > 0) {
    throw new Refused(`${name} is ${before.join(" x ")} after resizing, but the model's picture is ${wanted.join(" x ")}`);
  }
  const offset = gaps.map((gap) => -roundEven(-gap / 2));
  return { pixels: placed(pixels, before, wanted, offset, depth, 0), seen: { size, scale, offset } };
}

/** Width and height to resize to. */
function sizeToResize(size, known, wanted) {
  const { resize } = known;
  if (known.longest) {
    const ratio = Math.min(1, known.longest / Math.max(...size));
    return size.map((side) => Math.max(known.multiple, roundEven((side * ratio) / known.multiple) * known.multiple));
  }
  if (known.fill !== null) {
    const ratio = Math.min(wanted[0] / size[0], wanted[1] / size[1]);
    return size.map((side) => Math.max(1, roundEven(side * ratio)));
  }
  if (resize === null) return wanted;
  if (Array.isArray(resize)) return [resize[1], resize[0]];
  const [width, height] = size;
  return width <= height
    ? [resize, Math.max(1, Math.floor((resize * height) / width))]
    : [Math.max(1, Math.floor((resize * width) / height)), resize];
}

/** Pixels at an offset in a picture of another size: what is outside is cut off. */
function placed(pixels, from, to, offset, depth, fill) {
  const data = new Uint8Array(to[0] * to[1] * depth).fill(fill);
  const left = Math.max(0, offset[0]);
  const right = Math.min(to[0], offset[0] + from[0]);
  for (let y = Math.max(0, offset[1]); y < Math.min(to[1], offset[1] + from[1]); y++) {
    const start = ((y - offset[1]) * from[0] + left - offset[0]) * depth;
    data.set(pixels.subarray(start, start + (right - left) * depth), (y * to[0] + left) * depth);
  }
  return { data, size: to, depth };
}

/** Pixels in another size, by Pillow's filters: two passes, each rounded to 8 bits. */
export function resized(pixels, from, to, depth, interpolation) {
  if (interpolation === "nearest") return nearest(pixels, from, to, depth);
  const down = to[1] < from[1] && 2 * (from[0] - to[0]) < from[1] - to[1]; // as Pillow 13 does
  let [made, size] = [pixels, from];
  for (const axis of down ? [1, 0] : [0, 1]) {
    if (from[axis] === to[axis]) continue;
    const parts = weights(from[axis], to[axis], interpolation);
    const next = axis ? [size[0], to[1]] : [to[0], size[1]];
    made = filtered(made, parts, size, next, depth, axis);
    size = next;
  }
  return made;
}

/** Where each pixel of a line begins to count in each of the result, and what each counts. */
function weights(from, to, interpolation) {
  const scale = from / to;
  const wide = Math.max(1, scale);
  const support = SUPPORT[interpolation] * wide;
  return Array.from({ length: to }, (_, number) => {
    const center = (number + 0.5) * scale;
    const first = Math.max(0, Math.trunc(center - support + 0.5));
    const last = Math.min(from, Math.trunc(center + support + 0.5));
    const parts = Array.from({ length: last - first }, (_, i) => KERNELS[interpolation]((first + i - center + 0.5) / wide));
    const total = parts.reduce((a, b) => a + b, 0);
    const values = parts.map((part) => (total === 0 ? part : part / total) * 2 ** BITS);
    return { first, values: values.map((value) => Math.trunc(value < 0 ? value - 0.5 : value + 0.5)) };
  });
}

const sinc = (x) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

const KERNELS = {
  bilinear: (x) => Math.max(0, 1 - Math.abs(x)),
  bicubic: (x) => {
    const t = Math.abs(x);
    if (t < 1) return (1.5 * t - 2.5) * t * t + 1;
    return t < 2 ? ((-0.5 * t + 2.5) * t - 4) * t + 2 : 0;
  },
  lanczos: (x) => (Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0),
};

/** One pass, along an axis. */
function filtered(pixels, parts, from, to, depth, axis) {
  const made = new Uint8ClampedArray(to[0] * to[1] * depth);
  const step = axis ? from[0] * depth : depth;
  for (let y = 0, at = 0; y < to[1]; y++) {
    for (let x = 0; x < to[0]; x++) {
      const { first, values } = parts[axis ? y : x];
      const start = (axis ? first * from[0] + x : y * from[0] + first) * depth;
      for (let channel = 0; channel < depth; channel++) {
        let sum = 2 ** (BITS - 1);
        for (let i = 0, place = start + channel; i < values.length; i++, place += step) sum += pixels[place] * values[i];
        made[at++] = sum >> BITS;
      }
    }
  }
  return new Uint8Array(made.buffer);
}

function nearest(pixels, from, to, depth) {
  const [columns, rows] = [0, 1].map((axis) =>
    Array.from({ length: to[axis] }, (_, i) => Math.floor((i + 0.5) * (from[axis] / to[axis]))));
  const made = new Uint8Array(to[0] * to[1] * depth);
  let at = 0;
  for (const row of rows) {
    for (const column of columns) {
      for (let channel = 0; channel < depth; channel++) made[at++] = pixels[(row * from[0] + column) * depth + channel];
    }
  }
  return made;
}

/** What each value of 8 bits becomes in a channel. */
export function valueTable(known, channel) {
  return Float32Array.from({ length: 256 }, (_, value) => {
    const scaled = known.scale === 1 / 255 ? value / 255 : value * known.scale;
    return (scaled - known.mean[channel]) / known.std[channel];
  });
}

/** Pixels as an input of one row. */
function valued(known, { data, size, depth }) {
  const tables = Array.from({ length: depth }, (_, channel) => valueTable(known, channel));
  const order = known.color === "bgr" ? [2, 1, 0] : [0, 1, 2];
  const area = size[0] * size[1];
  const first = known.layout === "CHW";
  const made = new Float32Array(area * depth);
  for (let channel = 0; channel < depth; channel++) {
    const source = depth === 1 ? 0 : order[channel];
    for (let i = 0; i < area; i++) {
      made[first ? channel * area + i : i * depth + channel] = tables[channel][data[i * depth + source]];
    }
  }
  const shape = first ? [1, depth, size[1], size[0]] : [1, size[1], size[0], depth];
  return { dtype: "float32", shape, data: made };
}

// -- sounds ---------------------------------------------------------------------------

async function sound(known, file, limits) {
  let buffer;
  try {
    const context = new OfflineAudioContext(1, 1, known.rate); // decoding resamples to its rate
    buffer = await context.decodeAudioData(await file.arrayBuffer());
  } catch {
    throw new Refused(`${file.name} can't be read as a sound`);
  }
  if (buffer.duration > limits.seconds) {
    throw new Refused(`${file.name} is ${Math.round(buffer.duration)} seconds long; the limit is ${limits.seconds}`);
  }
  const wave = known.normalize ? normalized(mono(buffer)) : mono(buffer);
  const windows = framed(known, wave);
  const feeds = {};
  let [values, shape] = [windows, [windows.length, windows[0].length]];
  if (known.spectrum) [values, shape] = bins(known.spectrum, windows, known.rate, Refused);
  if (known.channel) shape.splice(known.channel === "first" ? 1 : 2, 0, 1);
  feeds[known.input] = { dtype: "float32", shape, data: joined(values) };
  if (known.mask) {
    const there = framed(known, new Float32Array(wave.length).fill(1));
    feeds[known.mask] = { dtype: "int64", shape: [there.length, there[0].length], data: BigInt64Array.from(joined(there), BigInt) };
  }
  return { feeds, seen: { seconds: buffer.duration, size: [0, 0], scale: [1, 1], offset: [0, 0] } };
}

function joined(rows) {
  const made = new Float32Array(rows.length * rows[0].length);
  rows.forEach((row, number) => made.set(row, number * row.length));
  return made;
}

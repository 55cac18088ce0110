// Sounds: one channel, windows, spectra.

/** The mean of a buffer's channels. */
export function mono(buffer) {
  const channels = Array.from({ length: buffer.numberOfChannels }, (_, i) => buffer.getChannelData(i));
  return Float32Array.from(channels[0], (_, i) => channels.reduce((sum, channel) => Math.fround(sum + channel[i]), 0) / channels.length);
}

/** A sound of mean 0 and variance 1. */
export function normalized(wave) {
  const mean = wave.reduce((a, b) => a + b, 0) / wave.length;
  const variance = wave.reduce((sum, value) => sum + (value - mean) ** 2, 0) / wave.length;
  return wave.map((value) => (value - mean) / Math.sqrt(variance + 1e-7));
}

/** A sound's windows, each a Float32Array of the same length. */
export function framed(known, wave) {
  const { length, hop } = known;
  if (length === null) return [wave];
  const before = hop === null ? 0 : known.before;
  const step = hop ?? length;
  const total = before + wave.length + (hop === null ? 0 : known.after);
  const count = hop === null ? 1 : Math.max(1, Math.ceil((total - (length - hop)) / hop));
  const whole = new Float32Array((count - 1) * step + length);
  whole.set(wave.subarray(0, whole.length - before), before);
  return Array.from({ length: count }, (_, i) => whole.slice(i * step, i * step + length));
}

const LOGS = { ln: 1, log10: 1 / Math.LN10, db: 10 / Math.LN10 };

/**
 * Each window's spectrum, by librosa's formulas (stft, filters.mel).
 * @returns {[Float32Array[], number[]]} A row for each window, and the shape of all.
 */
export function bins(known, windows, rate, Refused) {
  const { size, hop } = known;
  if (windows[0].length <= (known.center ? size / 2 : size - 1)) throw new Refused("the sound is shorter than a frame");
  const middle = { hann: 0.5, hamming: 0.54, ones: 1 }[known.window];
  const shape = Float64Array.from({ length: size }, (_, i) => middle - (1 - middle) * Math.cos((2 * Math.PI * i) / size));
  const bands = known.mels === null ? null : melBands(known, rate);
  let count = 0;
  const rows = windows.map((window) => {
    const wave = known.center ? mirrored(window, Math.floor(size / 2)) : window;
    count = Math.floor((wave.length - size) / hop) + 1 - (known.drop_last ? 1 : 0);
    const frames = Array.from({ length: count }, (_, i) => frame(known, wave, i * hop, shape, bands));
    const most = Math.max(...frames.map((values) => values.reduce((a, b) => Math.max(a, b), -Infinity)));
    return laid(known, frames, known.span === null ? -Infinity : most - known.span);
  });
  const width = bands?.length ?? Math.floor(size / 2) + 1;
  return [rows, [rows.length, ...(known.frames_first ? [count, width] : [width, count])]];
}

function mirrored(wave, side) {
  const made = new Float32Array(wave.length + 2 * side);
  made.set(wave, side);
  for (let i = 1; i <= side; i++) {
    made[side - i] = wave[i];
    made[side + wave.length - 1 + i] = wave[wave.length - 1 - i];
  }
  return made;
}

/** The values of one frame: magnitudes, in bands, their logarithm. */
function frame(known, wave, start, shape, bands) {
  const { re, im } = fourier(Float64Array.from(shape, (value, i) => value * wave[start + i]), new Float64Array(shape.length));
  let found = Float64Array.from({ length: Math.floor(shape.length / 2) + 1 }, (_, i) => Math.hypot(re[i], im[i]) ** known.power);
  if (bands) found = Float64Array.from(bands, (band) => band.reduce((sum, value, i) => sum + value * found[i], 0));
  return known.log ? found.map((value) => Math.log(Math.max(value, known.floor)) * LOGS[known.log]) : found;
}

function laid(known, frames, least) {
  const width = frames[0].length;
  const made = new Float32Array(frames.length * width);
  frames.forEach((values, time) => values.forEach((value, bin) => {
    const at = known.frames_first ? time * width + bin : bin * frames.length + time;
    made[at] = (Math.max(value, least) + known.shift) * known.gain;
  }));
  return made;
}

/** The discrete Fourier transform, split by the smallest factor (Cooley and Tukey). */
function fourier(re, im) {
  const n = re.length;
  let factor = 2;
  while (factor * factor <= n && n % factor) factor++;
  if (n % factor) factor = n;
  if (n === 1) return { re, im };
  const step = n / factor;
  const parts = Array.from({ length: factor }, (_, i) => {
    const pick = (values) => Float64Array.from({ length: step }, (_, k) => values[k * factor + i]);
    return step === 1 ? { re: pick(re), im: pick(im) } : fourier(pick(re), pick(im));
  });
  const made = { re: new Float64Array(n), im: new Float64Array(n) };
  for (let k = 0; k < n; k++) {
    for (let i = 0; i < factor; i++) {
      const angle = (-2 * Math.PI * ((k * i) % n)) / n;
      const [cos, sin, a, b] = [Math.cos(angle), Math.sin(angle), parts[i].re[k % step], parts[i].im[k % step]];
      made.re[k] += a * cos - b * sin;
      made.im[k] += a * sin + b * cos;
    }
  }
  return made;
}

function melBands(known, rate) {
  const top = known.high ?? rate / 2;
  const [low, high] = [toMel(known.low, known.scale), toMel(top, known.scale)];
  const places = Array.from({ length: known.mels + 2 }, (_, i) => toHertz(low + ((high - low) * i) / (known.mels + 1), known.scale));
  const count = Math.floor(known.size / 2) + 1;
  return Array.from({ length: known.mels }, (_, band) => {
    const [first, peak, last] = places.slice(band, band + 3);
    return Float64Array.from({ length: count }, (_, bin) => {
      const hertz = (bin * rate) / 2 / (count - 1);
      const value = Math.max(0, Math.min((hertz - first) / (peak - first), (last - hertz) / (last - peak)));
      return known.norm ? (value * 2) / (last - first) : value;
    });
  });
}

function toMel(hertz, scale) {
  if (scale === "htk") return 2595 * Math.log10(1 + hertz / 700);
  return hertz < 1000 ? (hertz * 3) / 200 : 15 + (Math.log(hertz / 1000) * 27) / Math.log(6.4);
}

function toHertz(mel, scale) {
  if (scale === "htk") return 700 * (10 ** (mel / 2595) - 1);
  return mel < 15 ? (mel * 200) / 3 : 1000 * Math.exp(((mel - 15) * Math.log(6.4)) / 27);
}

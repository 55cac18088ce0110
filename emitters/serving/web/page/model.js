// The model of this folder, in a page: files in, answers out.
//
//     import { Model } from "./model.js";
//     const model = await Model.load();
//     const { answer } = await model.ask(file);      // a File or a named Blob

import { answer } from "./answers.js";
import { open } from "./engine.js";
import { prepare, Refused } from "./prepare.js";

export { Refused };

const HERE = new URL("./", import.meta.url);

export class Model {
  /**
   * Fetches the model and opens it in its runtime.
   * @param {object} [options]
   * @param {"wasm"|"webgpu"} [options.device]
   * @param {number} [options.threads] Of WASM; more than one needs a cross-origin isolated page.
   * @param {(share: number) => void} [options.progress] Called while the model's file comes.
   */
  static async load({ device = "wasm", threads = usualThreads(), progress = () => {} } = {}) {
    const started = performance.now();
    const [facts, stages] = await Promise.all(["web.json", "stages.json"].map(json));
    const bytes = await download(facts.file, facts.bytes, progress);
    const count = self.crossOriginIsolated ? threads : 1;
    const run = await open(bytes, facts, { device, threads: count });
    return new Model(facts, stages, run, { device, threads: count, load: performance.now() - started });
  }

  constructor(facts, stages, run, opened) {
    Object.assign(this, { facts, stages, opened, runOnce: run });
  }

  /** Whether it takes files: else only arrays, by `run`. */
  get takes() {
    return this.stages.prepare.map((item) => item.kind).filter((kind) => kind === "picture" || kind === "sound");
  }

  /**
   * What the model says of a file.
   * @returns {Promise<{answer: object, seen: object, times: object}>} The answer as JSON, what the
   *   file was (of a picture its bitmap), and milliseconds of prepare, run and answer.
   * @throws {Refused} The file can't be prepared.
   */
  async ask(file) {
    const clock = [performance.now()];
    const { feeds, seen } = await prepare(this.stages, file);
    clock.push(performance.now());
    const outputs = await this.run(feeds);
    clock.push(performance.now());
    const found = answer(this.stages, outputs, seen);
    clock.push(performance.now());
    const [prepared, ran, answered] = clock.slice(1).map((time, i) => time - clock[i]);
    return { answer: found, seen, times: { prepare: prepared, run: ran, answer: answered } };
  }

  /**
   * The outputs for a file's tensors, {dtype, shape, data} by name, with the batch first: row by
   * row, and where each row needs what the one before gave, with that. `runOnce` is one run of
   * tensors in the model's own shapes.
   */
  async run(feeds) {
    const fixed = new Set(this.stages.prepare.filter((item) => item.kind === "constant").map((item) => item.input));
    const states = this.stages.prepare.filter((item) => item.kind === "state");
    states.forEach((state) => fixed.add(state.input));
    const own = Object.keys(feeds).filter((name) => !fixed.has(name));
    const [given, found] = [{ ...feeds }, []];
    for (let row = 0; row < feeds[own[0]].shape[0]; row++) {
      for (const name of own) given[name] = this.row(name, feeds[name], row);
      found.push(await this.runOnce(given));
      for (const state of states) given[state.input] = found.at(-1)[state.next];
    }
    return joined(found, new Set(states.map((state) => state.next)));
  }

  /** One row of a tensor; without the axis of rows, where the model has none. */
  row(name, { dtype, shape, data }, number) {
    const size = data.length / shape[0];
    const single = this.facts.inputs.find((item) => item.name === name).shape.length < shape.length;
    const part = data.slice(number * size, (number + 1) * size);
    return { dtype, shape: single ? shape.slice(1) : [1, ...shape.slice(1)], data: part };
  }
}

export function usualThreads() {
  return Math.max(1, Math.min(4, navigator.hardwareConcurrency || 1));
}

/** Rows joined; of states, the last. */
function joined(found, last) {
  return Object.fromEntries(Object.entries(found[0]).map(([name, first]) => {
    if (last.has(name) || found.length === 1) return [name, found.at(-1)[name]];
    const data = new first.data.constructor(first.data.length * found.length);
    found.forEach((outputs, i) => data.set(outputs[name].data, i * first.data.length));
    const along = first.shape[0] === 1;
    return [name, { ...first, data, shape: [found.length, ...(along ? first.shape.slice(1) : first.shape)] }];
  }));
}

export async function fetched(name) {
  const response = await fetch(new URL(name, HERE));
  if (!response.ok) throw new Error(`${name} can't be fetched: ${response.status} ${response.statusText}`);
  return response;
}

export async function json(name) {
  return (await fetched(name)).json();
}

async function download(name, bytes, progress) {
  const reader = (await fetched(name)).body.getReader();
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length > bytes) throw new Error(`${name} has more than ${bytes} bytes`);
    whole.set(value, at);
    at += value.length;
    progress(at / bytes);
  }
  if (at !== bytes) throw new Error(`${name} is cut short: ${at} of ${bytes} bytes`);
  return whole;
}

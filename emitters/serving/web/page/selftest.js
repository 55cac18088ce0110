// Runs the samples of this folder, and compares what comes out with what the source model gave.

import { fetched } from "./model.js";

const READ = {
  f4: Float32Array, f8: Float64Array, i1: Int8Array, i2: Int16Array, i4: Int32Array,
  i8: BigInt64Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, u8: BigUint64Array, b1: Uint8Array,
};

/** A sample's tensors, by name. */
export async function tensors(parts) {
  const made = await Promise.all(Object.entries(parts).map(async ([name, { file, dtype }]) => [name, await npy(file, dtype)]));
  return Object.fromEntries(made);
}

/** An array in NumPy's format, version 1 (numpy.lib.format). */
async function npy(file, dtype) {
  const buffer = await (await fetched(file)).arrayBuffer();
  const end = 10 + new DataView(buffer).getUint16(8, true);
  const head = new TextDecoder().decode(buffer.slice(10, end));
  const kind = READ[/'descr': *'[<|]([fiub][0-9])'/.exec(head)?.[1]];
  if (!kind || /'fortran_order': *True/.test(head)) throw new Error(`${file} has a type that this page doesn't read: ${head}`);
  const shape = /\(([^)]*)\)/.exec(head)[1].split(",").filter((part) => part.trim()).map(Number);
  return { dtype, shape, data: new kind(buffer.slice(end)) };
}

/**
 * How near what a sample gave is to what the source gave.
 * @param {object} facts What modelyard.json says.
 * @returns {{name: string, cosine: number, error: number, ok: boolean}[]} Of each output that is
 *   compared here: lists of found things are not, since their rows may change places.
 */
export function compare(facts, found, expected) {
  const lists = new Set(facts.lists.flatMap((list) => list.outputs));
  return facts.outputs.filter((item) => item.name in expected && !lists.has(item.name)).map((item) => {
    const [a, b] = [numbers(found[item.name], item.stored ?? item.scale), numbers(expected[item.name], item.scale)];
    const alike = a.length === b.length && a.every((value, i) => Number.isNaN(value) === Number.isNaN(b[i]));
    let [dot, aa, bb, error] = [0, 0, 0, 0];
    a.forEach((value, i) => {
      if (Number.isNaN(value)) return;
      dot += value * b[i];
      aa += value * value;
      bb += b[i] * b[i];
      error = Math.max(error, Math.abs(value - b[i]));
    });
    const cosine = aa === 0 && bb === 0 ? 1 : dot / Math.sqrt(aa * bb) || 0;
    const ok = alike && cosine >= facts.gates.cosine && !(error > (facts.gates.max_abs ?? Infinity));
    return { name: item.name, cosine, error, ok };
  });
}

function numbers(tensor, scale) {
  const plain = Float64Array.from(tensor.data, Number);
  return scale ? plain.map((value) => (value - scale[1]) * scale[0]) : plain;
}

/** Runs all samples; gives the rows of `compare`, each with its sample. */
export async function selftest(model, facts) {
  const rows = [];
  for (const sample of facts.samples) {
    const started = performance.now();
    const found = await model.runOnce(await tensors(sample.feeds));
    const took = performance.now() - started;
    rows.push(...compare(facts, found, await tensors(sample.expected)).map((row) => ({ sample: sample.name, took, ...row })));
  }
  return rows;
}

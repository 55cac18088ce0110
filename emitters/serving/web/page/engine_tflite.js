// Runs the model in LiteRT.js.

import { loadAndCompile, loadLiteRt, Tensor } from "./runtime/index.js";

/**
 * Opens a model.
 * @param {Uint8Array} bytes Of the file.
 * @param {object} facts What web.json says.
 * @param {{device: string, threads: number}} how
 * @returns {Promise<(feeds: object) => Promise<object>>} From tensors to tensors, by name.
 */
export async function open(bytes, facts, { device, threads }) {
  await loadLiteRt(new URL("./runtime/wasm/", import.meta.url).href, { threads: threads > 1 });
  const model = await loadAndCompile(bytes, { accelerator: device, cpuOptions: { numThreads: threads } });
  return async (feeds) => {
    const given = Object.fromEntries(facts.inputs.map(({ name }) => [name, new Tensor(feeds[name].data, feeds[name].shape)]));
    const found = await model.run(given);
    const made = await Promise.all(facts.outputs.map(async ({ name, dtype }) => {
      const shape = Array.from(found[name].type.layout.dimensions);
      return [name, { dtype, shape, data: await found[name].data() }];
    }));
    for (const tensor of [...Object.values(given), ...Object.values(found)]) tensor.delete();
    return Object.fromEntries(made);
  };
}

// Runs the model in ONNX Runtime Web.

/**
 * Opens a model.
 * @param {Uint8Array} bytes Of the file.
 * @param {object} facts What web.json says.
 * @param {{device: string, threads: number}} how
 * @returns {Promise<(feeds: object) => Promise<object>>} From tensors to tensors, by name.
 */
export async function open(bytes, facts, { device, threads }) {
  const ort = await import(device === "webgpu" ? "./runtime/ort.webgpu.min.mjs" : "./runtime/ort.wasm.min.mjs");
  ort.env.logLevel = "error";
  ort.env.wasm.wasmPaths = new URL("./runtime/", import.meta.url).href;
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.proxy = device === "wasm"; // in a worker: the page goes on while it runs
  const session = await ort.InferenceSession.create(bytes, { executionProviders: [device] });
  return async (feeds) => {
    const given = Object.fromEntries(session.inputNames.map((name) => {
      const { dtype, shape, data } = feeds[name];
      return [name, new ort.Tensor(dtype, data.slice(), shape)]; // the worker keeps what it is given
    }));
    const found = await session.run(given);
    const made = await Promise.all(session.outputNames.map(async (name) => {
      const { type, dims } = found[name];
      return [name, { dtype: type, shape: [...dims], data: await found[name].getData() }];
    }));
    return Object.fromEntries(made);
  };
}

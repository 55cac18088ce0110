// The page: loads the model, takes files and samples, shows answers and times.

import { answer } from "./answers.js";
import { json, Model, Refused } from "./model.js";
import { compare, selftest, tensors } from "./selftest.js";
import { pictureOf, show, table } from "./show.js";

const asked = new URLSearchParams(location.search);
const at = (id) => document.getElementById(id);
let model;
let facts;

async function start() {
  await cached();
  const device = asked.get("device") ?? "wasm";
  offerDevices(device);
  const threads = Number(asked.get("threads")) || undefined;
  [model, facts] = await Promise.all([Model.load({ device, threads, progress }), json("modelyard.json")]);
  at("bar").hidden = true;
  const many = model.opened.threads === 1 ? "1 thread" : `${model.opened.threads} threads`;
  at("how").textContent = `${model.facts.runtime}, ${device === "webgpu" ? "WebGPU" : `WASM, ${many}`}`;
  offerFiles();
  offerSamples();
  times({});
  state("ready", "Ready");
  if (asked.has("selftest")) await test();
}

/** What the page is doing, for people and, as data-state, for programs. */
function state(name, text) {
  document.body.dataset.state = name;
  at("state").textContent = text;
}

function progress(share) {
  at("bar").value = share;
  state("loading", share < 1 ? `Loading the model: ${Math.round(share * 100)} %` : "Starting the runtime");
}

/** Has the service worker keep what is fetched from here on, where there is one. */
async function cached() {
  if (!navigator.serviceWorker) return;
  const taken = new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true }));
  try {
    await navigator.serviceWorker.register("sw.js");
    if (!navigator.serviceWorker.controller) await Promise.race([taken, new Promise((resolve) => setTimeout(resolve, 5000))]);
    at("offline").hidden = !navigator.serviceWorker.controller;
  } catch (error) {
    console.warn("without a service worker, the page needs its server each time:", error.message);
  }
}

function offerDevices(device) {
  at("device").value = device;
  const gpu = at("device").querySelector("[value=webgpu]");
  if (!navigator.gpu) [gpu.disabled, gpu.textContent] = [true, "WebGPU (not in this browser)"];
  at("device").addEventListener("change", () => {
    asked.set("device", at("device").value);
    location.search = asked;
  });
}

function offerFiles() {
  if (!model.takes.length) return;
  const [drop, file] = [at("drop"), at("file")];
  drop.hidden = false;
  file.addEventListener("change", () => file.files.length && ask(file.files[0]));
  for (const [name, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", over);
      if (name === "drop" && event.dataTransfer.files.length) ask(event.dataTransfer.files[0]);
    });
  }
}

function offerSamples() {
  at("samples").hidden = !facts.samples.length;
  for (const [number, sample] of facts.samples.entries()) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: sample.name, id: `sample-${number}` });
    button.addEventListener("click", () => busy(() => runSample(sample)));
    at("sample-list").append(button);
  }
  at("test").addEventListener("click", () => busy(test));
}

const ask = (file) => busy(async () => {
  const found = await model.ask(file);
  result(file.name, found, file);
});

async function runSample(sample) {
  const feeds = await tensors(sample.feeds);
  const seen = { size: [0, 0], scale: [1, 1], offset: [0, 0], seconds: 0, feeds, ...pictureOf(model.stages, feeds) };
  const started = performance.now();
  const outputs = await model.runOnce(feeds);
  const ran = performance.now();
  const found = answer(model.stages, outputs, seen);
  result(sample.name, { answer: found, seen, times: { run: ran - started, answer: performance.now() - ran } });
  if (!facts.reference) return;
  const rows = compare(facts, outputs, await tensors(sample.expected));
  at("beside").textContent = rows.map((row) => `${row.name}: cosine ${row.cosine.toFixed(6)} to what ${facts.reference} gave.`).join(" ");
}

/** Runs what takes a while; one thing at a time. */
async function busy(work) {
  if (document.body.dataset.state === "busy") return;
  at("trouble").hidden = true;
  state("busy", "Working");
  try {
    await work();
  } catch (error) {
    trouble(error);
  }
  state("ready", "Ready");
}

function trouble(error) {
  at("trouble").hidden = false;
  at("trouble").textContent = error.message;
  if (!(error instanceof Refused)) console.error(error);
}

function result(name, found, file) {
  at("result").hidden = false;
  at("of").textContent = name;
  at("beside").textContent = "";
  show(at("shown"), found.answer, found.seen, file);
  at("json").textContent = JSON.stringify(found.answer, null, 1);
  times(found.times);
  document.dispatchEvent(new CustomEvent("answer", { detail: found.answer }));
}

function times(found) {
  const rows = [["Load, once", model.opened.load], ["Prepare the file", found.prepare], ["Run the model", found.run], ["Make the answer", found.answer]];
  const told = rows.map(([what, ms]) => [what, ms === undefined ? "–" : `${ms.toFixed(ms < 100 ? 1 : 0)} ms`]);
  at("times").replaceChildren(table(["Step", "Time"], told));
}

async function test() {
  const rows = await selftest(model, facts);
  const passed = rows.length && rows.every((row) => row.ok);
  document.body.dataset.selftest = rows.length ? (passed ? "passed" : "missed") : "nothing";
  const told = rows.map((row) => [row.sample, row.ok ? "ok" : "MISSED", row.name, row.cosine.toFixed(6), row.error.toPrecision(2), `${row.took.toFixed(1)} ms`]);
  const verdict = { passed: `All within the limits (cosine at least ${facts.gates.cosine})`, missed: "A limit is missed", nothing: "Nothing could be compared here: selftest.py compares it" };
  at("tested").hidden = false;
  at("verdict").textContent = verdict[document.body.dataset.selftest];
  at("rows").replaceChildren(table(["Sample", "Verdict", "Output", "Cosine", "Largest error", "Time"], told));
}

start().catch((error) => {
  state("failed", "The model can't be run here");
  trouble(error);
});

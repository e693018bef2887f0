'use strict';
// What loop.py and allocator.py measure, in a fresh process: child.js MODE ARM TOKENIZER CORPUS. The packages are found by NODE_PATH.

const { readFileSync, statSync } = require('node:fs');
const { monitorEventLoopDelay } = require('node:perf_hooks');
const path = require('node:path');

const { documents } = require('../encoders/corpora.js');

const CHECKPOINTS = [1, 5, 50];
/** Further ones of a package that is fast enough. */
const LATER = [500];
const MIB = 1 << 20;
/** Of a batch that the event loop runs beside. */
const BATCH = 100 * MIB;

const bytesOf = (texts) => texts.reduce((all, text) => all + Buffer.byteLength(text), 0);
const say = (line) => console.log(JSON.stringify(line));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A batch of 100 MB of the texts, again and again. */
function large(texts) {
  return Array(Math.ceil(BATCH / bytesOf(texts))).fill(texts).flat();
}

/** The delay of the event loop while a promise is pending, and how long it was. */
async function delayed(call) {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const begin = performance.now();
  await call();
  const took_ms = performance.now() - begin;
  delay.disable();
  const ms = (nanos) => nanos / 1e6;
  return { took_ms, p50_ms: ms(delay.percentile(50)), p99_ms: ms(delay.percentile(99)), max_ms: ms(delay.max) };
}

/** The delay of the event loop beside a large batch, and beside nothing for as long: the control. */
async function loop(tokenizer, texts) {
  const batch = large(texts);
  await tokenizer.encodeBatch(texts);
  const beside = await delayed(() => tokenizer.encodeBatch(batch));
  say({ what: 'batch', ...beside });
  say({ what: 'control', ...(await delayed(() => sleep(beside.took_ms))) });
}

/** From an abort to the error, and until the process has nothing to do any more. */
async function abort(tokenizer, texts) {
  const batch = large(texts);
  await tokenizer.encodeBatch(texts);
  const controller = new AbortController();
  const call = tokenizer.encodeBatch(batch, { signal: controller.signal });
  await sleep(100);
  const begin = performance.now();
  controller.abort();
  await call.then(
    () => {
      throw new Error('it was through');
    },
    () => {},
  );
  const rejected_ms = performance.now() - begin;
  let quiet_ms = rejected_ms;
  for (let used = process.cpuUsage(); ; used = process.cpuUsage()) {
    await sleep(20);
    const { user, system } = process.cpuUsage(used);
    if (user + system < 4000) break;
    quiet_ms = performance.now() - begin;
  }
  say({ what: 'abort', rejected_ms, quiet_ms });
}

function memory() {
  const status = readFileSync('/proc/self/status', 'utf8');
  const value = (name) => Number(new RegExp(`${name}:\\s*(\\d+)`).exec(status)[1]);
  return { VmPeak: value('VmPeak'), VmHWM: value('VmHWM'), VmRSS: value('VmRSS') };
}

/** Speed and memory after some batches. */
async function batches(arm, file, texts) {
  const some = texts.filter((_, k) => k % 4 === 0);
  let [encode, library] = [null, null];
  if (arm === 'tiktoken') {
    const encoding = require('tiktoken').get_encoding('gpt2');
    encode = (batch) => batch.map((text) => encoding.encode(text, 'all'));
    library = path.join(path.dirname(require.resolve('tiktoken')), 'tiktoken_bg.wasm');
  } else if (arm === 'tokenizers') {
    const tokenizer = require('tokenizers').Tokenizer.fromFile(file);
    encode = async (batch) => (await tokenizer.encodeBatch(batch, { addSpecialTokens: false })).map((it) => it.getIds());
    library = path.join(path.dirname(require.resolve('tokenizers')), 'tokenizers.linux-x64-gnu.node');
  } else {
    const tokenizer = await require('windrow').Tokenizer.fromFile(file);
    encode =
      arm === 'windrow-disposed'
        ? async (batch) => (await tokenizer.encodeBatch(batch, { addSpecialTokens: false }))[Symbol.dispose]()
        : (batch) => tokenizer.encodeBatch(batch, { addSpecialTokens: false });
    library = path.join(path.dirname(require.resolve('windrow')), '..', 'windrow.node');
  }
  const [before, bytes, size] = [memory().VmRSS, bytesOf(some), statSync(library).size];
  const checkpoints = arm.startsWith('windrow') ? [...CHECKPOINTS, ...LATER] : CHECKPOINTS;
  let took = 0;
  for (let number = 1; number <= Math.max(...checkpoints); number++) {
    const begin = process.hrtime.bigint();
    await encode(some);
    took += Number(process.hrtime.bigint() - begin);
    if (checkpoints.includes(number)) {
      say({ batches: number, took_ns: took, bytes: bytes * number, before_kib: before, library: size, ...memory() });
    }
  }
}

async function main() {
  const [mode, arm, file, corpus] = process.argv.slice(2);
  const texts = documents(corpus);
  if (mode === 'batches') {
    return batches(arm, file, texts);
  }
  const tokenizer = await require('windrow').Tokenizer.fromFile(file);
  return { loop, abort }[mode](tokenizer, texts);
}

main();

'use strict';
// Measures an encoder that is a Node package, as child.py does: child.js ARM TOKENIZER CORPUS THREADS PASSES EVERY BATCH.
// The packages are found by NODE_PATH.

const { readFileSync, writeFileSync } = require('node:fs');
const zlib = require('node:zlib');

const { documents } = require('./corpora.js');

const LONG = 3_000_000_000;
const CALLS = 4000;
const TINY = ['x y', 'hello', '1', 'zz'];

/**
 * What encodes a batch, and the ids of each text of its result.
 * @returns {Promise<[(texts: string[]) => any, (result: any) => Iterable<Uint32Array>]>}
 */
async function load(arm, path) {
  if (arm === 'tiktoken-node') {
    // GPT-2 is the only file that it has by itself.
    const encoding = require('tiktoken').get_encoding('gpt2');
    return [(texts) => texts.map((text) => encoding.encode(text, 'all')), (result) => result];
  }
  if (arm.startsWith('tokenizers-node')) {
    const tokenizer = require('tokenizers').Tokenizer.fromFile(path);
    const encode = (texts) => tokenizer.encodeBatch(texts, { addSpecialTokens: false });
    // What a program reads of an encoding, as an array of numbers.
    return [async (texts) => (await encode(texts)).map((it) => it.getIds()), (result) => result.map((ids) => Uint32Array.from(ids))];
  }
  const tokenizer = await require('windrow').Tokenizer.fromFile(path);
  const each = ({ ids, offsets }) => Array.from({ length: offsets.length - 1 }, (_, k) => ids.subarray(offsets[k], offsets[k + 1]));
  const plain = { addSpecialTokens: false };
  return [arm.includes('-sync') ? (texts) => tokenizer.encodeBatchSync(texts, plain) : (texts) => tokenizer.encodeBatch(texts, plain), each];
}

const peak = () => Number(/VmHWM:\s*(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]);
const nanos = () => Number(process.hrtime.bigint());
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

async function main() {
  const [arm, path, corpus] = process.argv.slice(2);
  const [, passes, every, batch] = process.argv.slice(5).map(Number);
  const texts = documents(corpus).filter((_, k) => k % every === 0);
  require(arm.split('-')[0]);
  const start = nanos();
  const [encode, each] = await load(arm, path);
  const said = { load_ns: nanos() - start, load_peak_kib: peak() };
  await encode(TINY);
  const one = async (some) => {
    const [begin, cpu] = [nanos(), process.cpuUsage()];
    const result = await encode(some);
    const took = nanos() - begin;
    const { user, system } = process.cpuUsage(cpu);
    return [result, took, (user + system) * 1000];
  };
  if (batch > 0) {
    const calls = [];
    let sum = 0;
    for (let k = 0; calls.length < CALLS && sum < LONG; k = k + 2 * batch <= texts.length ? k + batch : 0) {
      const [, took] = await one(texts.slice(k, k + batch));
      calls.push(took);
      sum += took;
    }
    Object.assign(said, { first_ns: calls[0], calls: calls.length });
    calls.sort((a, b) => a - b);
    Object.assign(said, { p50_ns: calls[calls.length >> 1], p99_ns: calls[Math.floor((calls.length * 99) / 100)] });
  } else {
    writeFileSync('/proc/self/clear_refs', '5');
    let [result, cold, cpu] = await one(texts);
    Object.assign(said, { cold_ns: cold, cold_cpu_ns: cpu, peak_kib: peak() });
    let [digests, tokens] = ['', 0];
    for (const ids of each(result)) {
      digests += zlib.crc32(Buffer.from(ids.buffer, ids.byteOffset, ids.byteLength)).toString(16).padStart(8, '0');
      tokens += ids.length;
    }
    const bytes = texts.reduce((all, text) => all + Buffer.byteLength(text), 0);
    Object.assign(said, { digests, tokens, bytes });
    result = null;
    const [warm, used] = [[], []];
    for (let sum = 0; warm.length < passes && sum < LONG; sum += warm[warm.length - 1]) {
      const [, took, busy] = await one(texts);
      warm.push(took);
      used.push(busy);
    }
    Object.assign(said, { warm_ns: median(warm), warm_cpu_ns: median(used) });
  }
  console.log(JSON.stringify(said));
}

main();

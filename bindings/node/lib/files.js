'use strict';

const { statSync } = require('node:fs');

const { kindOf, later, signalOf } = require('./door.js');
const native = require('./native.js');
const { Tokenizer, pathOf } = require('./tokenizer.js');

/** Milliseconds between two reports of progress. */
const LOOK = 100;

/**
 * How far a run has come.
 * @typedef {object} Progress
 * @property {number} storedBytes Bytes of the inputs, as stored, whose documents are encoded.
 * @property {number} [totalBytes] Those of all inputs, if known.
 * @property {number} documents Documents that are encoded.
 * @property {number} textBytes Bytes of their text.
 * @property {number} tokens Their ids, without those that end documents.
 */

/**
 * What `encodeFiles` has done: the object of `windrow encode --json`, and the notes of the command.
 * @typedef {object} Summary
 * @property {{ read: number, written: number, skipped: number, failed: number }} documents `read = written + skipped + failed`.
 * @property {number} bytes Of text, in the written documents.
 * @property {number} tokens
 * @property {number} special_tokens Ids of special tokens that come from the texts.
 * @property {{ name: string, documents: number, bytes: number, tokens: number }[]} inputs
 * @property {string} tokenizer
 * @property {string} format
 * @property {string | null} dtype
 * @property {number | null} eos The id behind each document.
 * @property {number} seconds
 * @property {string[]} outputs
 * @property {string[]} notes
 */

/**
 * The options of the command `windrow encode`, which `windrow encode --help` explains.
 * @typedef {object} EncodeFilesOptions
 * @property {Tokenizer | string | URL} [tokenizer] A tokenizer, a name of tiktoken, or the path of a file. Default: `o200k_base`.
 * @property {'npy' | 'nanogpt' | 'megatron' | 'datatrove' | 'mds' | 'jsonl' | 'arrow' | 'parquet'} [format] Default: `npy`.
 * @property {string} [dtype]
 * @property {boolean} [appendEos]
 * @property {string | number} [eos]
 * @property {string | number} [bos]
 * @property {boolean} [addSpecialTokens]
 * @property {boolean} [specialInText] Recognizes special tokens that are written in a text. Default: they are text, whatever the tokenizer does.
 * @property {boolean} [lines]
 * @property {string | readonly string[]} [field]
 * @property {string} [join]
 * @property {readonly string[]} [keep]
 * @property {'text' | 'lines' | 'jsonl' | 'parquet'} [inputFormat]
 * @property {readonly string[]} [extensions]
 * @property {boolean} [allText]
 * @property {boolean} [hidden]
 * @property {boolean} [ignoreFiles] Default: true.
 * @property {'fail' | 'skip'} [onError] Default: `fail`.
 * @property {number | string} [maxSkipped]
 * @property {boolean} [overwrite]
 * @property {number | string} [shardSize]
 * @property {boolean} [resume]
 * @property {number} [threads]
 * @property {number | string} [memory]
 * @property {(progress: Progress) => void} [progress] Is called some ten times a second, and at the end. What it throws ends the run.
 * @property {AbortSignal} [signal] Ends the run; nothing is published then.
 */

/** Options with a value, and the word of the command if it is another one. */
const VALUES = ['dtype', 'eos', 'bos', 'inputFormat', 'maxSkipped', 'threads', 'memory', 'shardSize', 'format', 'onError'];
const FLAGS = ['appendEos', 'addSpecialTokens', 'specialInText', 'lines', 'allText', 'hidden', 'overwrite', 'resume'];
const LISTS = { field: 'field', keep: 'keep', extensions: 'ext' };
const OTHERS = ['tokenizer', 'join', 'ignoreFiles', 'progress', 'signal'];

/**
 * Encodes files into token files, as `windrow encode` does, and returns its account.
 *
 * After an error nothing is published. A bad document or option is an `InputError`, a file that cannot be read or written a `FileError`.
 * @param {string | URL | Iterable<string | URL>} inputs Files, folders or patterns.
 * @param {string | URL} output The prefix of the files to write.
 * @param {EncodeFilesOptions} [options]
 * @returns {Promise<Summary>}
 */
async function encodeFiles(inputs, output, options = {}) {
  const signal = signalOf(options);
  const words = wordsOf(inputs, output, options);
  const { progress, tokenizer = 'o200k_base', addSpecialTokens = false, specialInText = false } = options;
  if (progress !== undefined && typeof progress !== 'function') {
    throw new TypeError(`progress must be a function, not ${kindOf(progress)}`);
  }
  const loaded = await loadedOf(tokenizer, !specialInText);
  signal?.throwIfAborted();
  /** @type {any} */
  let job;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  /** @type {(error: unknown) => void} */
  let fail = () => {};
  const failed = new Promise((_, reject) => {
    fail = reject;
  });
  const done = later(
    (callback) => {
      job = new native.FilesJob(words, Tokenizer._native(loaded), addSpecialTokens, specialInText, callback);
    },
    signal,
    () => job.stop(),
  );
  if (progress !== undefined) {
    timer = setInterval(() => {
      try {
        progress(job.progress);
      } catch (error) {
        job.stop();
        fail(error);
      }
    }, LOOK);
  }
  try {
    const { summary, notes } = /** @type {any} */ (await Promise.race([done, failed]));
    progress?.(job.progress);
    return { ...JSON.parse(summary), notes };
  } finally {
    // One of the two has no other listener.
    done.catch(() => {});
    clearInterval(timer);
  }
}

/**
 * The words of the command line.
 * @param {string | URL | Iterable<string | URL>} inputs
 * @param {string | URL} output
 * @param {any} options
 * @returns {string[]}
 */
function wordsOf(inputs, output, options) {
  const known = [...VALUES, ...FLAGS, ...Object.keys(LISTS), ...OTHERS];
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new TypeError(`encodeFiles has no option ${unknown}\nhint: the options are ${known.join(', ')}`);
  }
  const words = ['windrow', 'encode', `--output=${pathOf(output)}`];
  for (const name of VALUES) {
    if (options[name] !== undefined) {
      words.push(`--${kebab(name)}=${options[name]}`);
    }
  }
  for (const name of FLAGS) {
    if (options[name]) {
      words.push(`--${kebab(name)}`);
    }
  }
  if (options.ignoreFiles === false) {
    words.push('--no-ignore');
  }
  for (const [name, word] of Object.entries(LISTS)) {
    const values = options[name] ?? [];
    words.push(...(typeof values === 'string' ? [values] : values).map((/** @type {string} */ value) => `--${word}=${value}`));
  }
  if (options.join !== undefined) {
    const escaped = options.join.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\t', '\\t');
    words.push(`--join=${escaped}`);
  }
  const paths = typeof inputs === 'string' || inputs instanceof URL ? [inputs] : Array.from(inputs);
  return [...words, '--', ...paths.map(pathOf)];
}

/** @param {string} name */
function kebab(name) {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/**
 * A tokenizer, from all that names one. What is loaded here treats special tokens as it will be used.
 * @param {Tokenizer | string | URL} tokenizer
 * @param {boolean} encodeSpecialTokens
 * @returns {Promise<Tokenizer>}
 */
async function loadedOf(tokenizer, encodeSpecialTokens) {
  if (tokenizer instanceof Tokenizer) {
    return tokenizer;
  }
  const isFile = tokenizer instanceof URL || statSync(tokenizer, { throwIfNoEntry: false }) !== undefined;
  const options = { encodeSpecialTokens };
  return isFile ? Tokenizer.fromFile(tokenizer, options) : Tokenizer.fromTiktoken(/** @type {string} */ (tokenizer), options);
}

module.exports = { encodeFiles };

'use strict';
// The words of the command `windrow encode` and the options of `encodeFiles`.

/** Flags that hints ask for. */
const FLAGS = ['add-special-tokens', 'all-text', 'append-eos', 'hidden', 'lines', 'no-ignore', 'overwrite', 'resume', 'special-in-text'];

/**
 * A word of a message of the command: in a usage error `'--threads <N>'`, in a hint `--on-error skip`, `--overwrite` or `-o`. Not one in a path.
 */
const WORD = /'--([a-z][a-z-]*)(?:[ =]<[^>]*>(?:\.\.\.)?)?'|(?<![\w./\\-])(?:-(o)|--([a-z][a-z-]*[a-z])(?:[ =]([A-Z][A-Z_]*|\d\w*|(?:skip|fail|all|assistant|split|whole|u16|u32|i32|npy|nanogpt|megatron|datatrove|mds|jsonl|arrow-stream|arrow|lines|parquet|text|warc|webdataset)(?:\|[a-z]+)*)\b)?)(?![\w./\\-])/g;

/** Pipe into the command in a hint. A function has no such input. */
const PIPE = / \| windrow encode - --input-format ([A-Za-z|]+)/;

/** A remedy that is none for this package. */
const INSTALL = /cargo install windrow-cli --features [a-z-]+, or /;

/**
 * A message of the command in the words of the options.
 * @param {string} message
 * @returns {string}
 */
function inOptions(message) {
  return message.split('\n').map(lineInOptions).join('\n');
}

/** @param {string} line */
function lineInOptions(line) {
  const [pipe, formats] = PIPE.exec(line) ?? [];
  if (pipe !== undefined) {
    return line.replace(pipe, () => ` > NEW, and pass NEW with inputFormat: ${quoted(formats)}`);
  }
  return line.replace(INSTALL, '').replaceAll(WORD, (found, usage, o, word, value, place) => {
    const name = nameOf(usage ?? word ?? 'output');
    if (usage !== undefined || o !== undefined) {
      return name;
    }
    if (value !== undefined && !FLAGS.includes(word)) {
      return `${name}: ${/^\d+$/.test(value) ? value : quoted(value)}`;
    }
    const isAskedFor = FLAGS.includes(word) && !/(omit|or|the)\s$/.test(line.slice(0, place));
    return `${name}${isAskedFor ? ': true' : ''}${value === undefined ? '' : found.slice(found.length - value.length - 1)}`;
  });
}

/**
 * A value, or several of which one is meant.
 * @param {string} values
 * @returns {string}
 */
function quoted(values) {
  return values.split('|').map((value) => `'${value}'`).join(' or ');
}

/** @param {string} word */
function nameOf(word) {
  return word.replaceAll(/-([a-z])/g, (_, letter) => letter.toUpperCase());
}

module.exports = { inOptions };

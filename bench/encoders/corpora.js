'use strict';

const { readFileSync } = require('node:fs');

/** The texts of a corpus: see corpora.py. */
function documents(path) {
  const raw = readFileSync(path);
  const count = raw.readUInt32LE(0);
  let at = 4 + 4 * count;
  return Array.from({ length: count }, (_, k) => {
    const length = raw.readUInt32LE(4 + 4 * k);
    at += length;
    return raw.toString('utf8', at - length, at);
  });
}

module.exports = { documents };

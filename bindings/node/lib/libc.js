'use strict';
// The C library that a program runs with.

const { closeSync, openSync, readSync } = require('node:fs');

/** The segment of an ELF file that names its dynamic linker. */
const INTERPRETER = 3;

/**
 * True if a program of 64 bits runs with musl, by the dynamic linker that its ELF file names. `process.report` would say so too, but looks up
 * the addresses of all open sockets, and not every runtime has it.
 * @param {string} program
 * @returns {boolean}
 */
function isMusl(program) {
  /** @type {number | undefined} */
  let file;
  try {
    const opened = openSync(program, 'r');
    file = opened;
    const read = (/** @type {number} */ position, /** @type {number} */ length) => {
      const bytes = Buffer.alloc(length);
      return bytes.subarray(0, readSync(opened, bytes, 0, length, position));
    };
    const header = read(0, 64);
    const segments = Number(header.readBigUInt64LE(32));
    const [size, count] = [header.readUInt16LE(54), header.readUInt16LE(56)];
    const table = read(segments, size * count);
    for (let at = 0; at < table.length; at += size) {
      if (table.readUInt32LE(at) === INTERPRETER) {
        const [begin, length] = [table.readBigUInt64LE(at + 8), table.readBigUInt64LE(at + 32)];
        return read(Number(begin), Number(length)).includes('/ld-musl-');
      }
    }
    return false;
  } catch {
    // It cannot be read, or is no such file: most have glibc, and loading the addon says what is wrong.
    return false;
  } finally {
    if (file !== undefined) {
      closeSync(file);
    }
  }
}

module.exports = { isMusl };
